"""The calls of operators that launched kernels: in order, by name and arguments, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu
from sightline.roofline.operator_roofs import ARGUMENTS, place_operators
from sightline.roofline.operators.arguments import Arguments, parse_arguments
from sightline.subjects.kernels.rules._shared import list_work
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

# torch/csrc/autograd/engine.cpp and function.cpp name the ranges of backward nodes so.
BACKWARD = r"^autograd::engine::evaluate_function: "
# An operator of a library, such as aten::mm; what autograd runs around operators is none.
_OPERATOR, _AUTOGRAD = r"^\w+::", r"^(?:autograd|torch::autograd)::"
_TELLING_BYTES = 32 << 20  # ours: several times what moves in a launch's latency on any GPU
_FIRST_CHAR = 0x100  # from here on no character means something in `re`


@dataclass(frozen=True)
class Calls:
    """The innermost operators' calls that launched kernels of the window, in order of threads.

    `table`: call (host_op_id), rank, tid, kind, sequence_id, node (the backward node that it lies
    in, or null), of_call (the forward call that the node belongs to, or null), recorded (itself or the operator
    around it that autograd records, or null), kernel_ns and
    kernels. `kinds` are names with arguments (None where none are recorded), `kernels` has
    device_op_id, name, length and call. In `text` a character stands for each call's name, and U+0001 between
    two threads; `call_of` and `kind_of` say of each place which call and kind it is.
    """

    table: pl.DataFrame
    kinds: list[tuple[str, Arguments | None]]
    names: list[str]
    kernels: pl.DataFrame
    text: str
    call_of: list[int]
    kind_of: list[int]
    bytes_per_s: float | None
    tensor_flop_per_s: float | None


def code_name(number: int) -> str:
    """The character that stands for the name of this number in `Calls.text`."""
    return chr(_FIRST_CHAR + number)


def list_calls(run: Run) -> Calls | None:
    """The calls of a run; None where no operator launched a kernel."""
    return run.once(_list_calls)


def _list_calls(run: Run) -> Calls | None:
    if not run.rows("host_ops") or not run.rows("device_ops"):
        return None
    host = run.columns(
        "host_ops", ["host_op_id", "layer", "rank", "tid", "sequence_id", "forward_id"]
    )
    ids = host.get_column("host_op_id")
    kernels = (
        list_work(run).select("device_op_id", "name", "launch_id", "length").drop_nulls("launch_id")
    )
    said = list_host_names(run)
    is_operator = said.match(_OPERATOR) & ~said.match(_AUTOGRAD)
    operators = ids.filter((host.get_column("layer") == "op") & is_operator)
    if operators.is_empty() or kernels.is_empty():
        return None
    call = find_host_ancestor(run, kernels.get_column("launch_id"), operators)
    kernels = kernels.with_columns(call=call).drop_nulls("call")
    if kernels.is_empty():
        return None
    table = (
        kernels.group_by("call")
        .agg(kernel_ns=pl.col("length").sum(), kernels=pl.len())
        .join(host, left_on="call", right_on="host_op_id")
        .sort("rank", "tid", "call")
    )
    nodes = ids.filter(said.match(BACKWARD))
    node = find_host_ancestor(run, table.get_column("call"), nodes)
    of_call = host.get_column("forward_id").gather(find_rows(ids, node))
    recorded = operators.filter(
        operators.is_in(ids.filter(host.get_column("sequence_id").is_not_null()).implode())
    )
    outer = find_host_ancestor(run, table.get_column("call"), recorded)
    table, kinds, names = _number_kinds(
        run, table.with_columns(node=node, of_call=of_call, recorded=outer)
    )
    text, call_of, kind_of = _write_text(table)
    memory, tensor = _find_rates(run)
    return Calls(
        table, kinds, names, kernels.drop("launch_id"), text, call_of, kind_of, memory, tensor
    )


def _number_kinds(
    run: Run, table: pl.DataFrame
) -> tuple[pl.DataFrame, list[tuple[str, Arguments | None]], list[str]]:
    """The table with numbers of names and of names with arguments, and what they stand for."""
    told = run.columns("host_ops", ["host_op_id", "name", *ARGUMENTS])
    rows = find_rows(told.get_column("host_op_id"), table.get_column("call"))
    told = told.select(pl.col("name", *ARGUMENTS).cast(pl.String).gather(rows))
    different = told.unique(maintain_order=True)
    known = different.with_columns(kind=pl.int_range(pl.len(), dtype=pl.Int64))
    kind = told.join(
        known, on=["name", *ARGUMENTS], how="left", nulls_equal=True, maintain_order="left"
    ).get_column("kind")
    kinds = [(name, parse_arguments(*args)) for name, *args in different.iter_rows()]
    names = list(dict.fromkeys(name for name, _ in kinds))
    number = {name: i for i, name in enumerate(names)}
    name_of = pl.Series([number[name] for name, _ in kinds], dtype=pl.Int64)
    return table.with_columns(kind=kind, name=name_of.gather(kind)), kinds, names


def _write_text(table: pl.DataFrame) -> tuple[str, list[int], list[int]]:
    """A character for each call, with a separator where another thread or backward node begins.

    What follows each other on autograd's thread was not written so by anybody: each node there is
    by itself.
    """
    chars: list[str] = []
    call_of, kind_of = [], []
    before = None
    for call, kind, name, *place in table.select(
        "call", "kind", "name", "rank", "tid", "node"
    ).iter_rows():
        if place != before and before is not None:
            chars.append("\1")
            call_of.append(-1)
            kind_of.append(-1)
        before = place
        chars.append(code_name(name))
        call_of.append(call)
        kind_of.append(kind)
    return "".join(chars), call_of, kind_of


def _find_rates(run: Run) -> tuple[float | None, float | None]:
    """Bytes/s of the memory and FLOP/s of products in 16 bits, of the fastest device of the run.

    The memory's is what the better quarter of its own large passes reach, at most the datasheet's,
    which stands in where there is none.
    """
    gpus = [
        gpu
        for name, memory in run.table("devices").select("name", "memory_bytes").iter_rows()
        if (gpu := find_gpu(name, memory)) is not None
    ]
    printed = max((n for gpu in gpus if (n := gpu.number("memory_bandwidth"))), default=None)
    tensor = max(
        (
            n
            for gpu in gpus
            if (
                n := gpu.number("achievable.bf16_tensor")
                or gpu.peaks().get("bf16_tensor")
                or gpu.peaks().get("fp16_tensor")
            )
        ),
        default=None,
    )
    own = (
        place_operators(run)
        .filter(pl.col("flop").is_null() & (pl.col("moved_bytes") >= _TELLING_BYTES))
        .select((1e9 * pl.col("moved_bytes") / pl.col("kernel_ns")).quantile(0.75))
        .item()
    )
    known = [n for n in (own, printed) if n]
    return (min(known) if known else None), tensor
