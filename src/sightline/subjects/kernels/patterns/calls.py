"""The calls of operators that launched kernels, by name and arguments, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_rows, number_groups, take_rows
from sightline.core.algebra.order import sort_rows
from sightline.core.model.run import Run
from sightline.roofline.operator_roofs import ARGUMENTS
from sightline.roofline.operators.arguments import Arguments, parse_arguments, read_json
from sightline.subjects.kernels.patterns.rates import find_memory_rate, find_peaks
from sightline.subjects.kernels.rules._optimizer import STEP as OPTIMIZER_STEP
from sightline.subjects.kernels.rules._shared import list_work
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

# torch/csrc/autograd/engine.cpp and function.cpp name the ranges of backward nodes so.
BACKWARD = r"^autograd::engine::evaluate_function: "
# An operator of a library, such as aten::mm; what autograd runs around operators is none.
_OPERATOR, _AUTOGRAD = r"^\w+::", r"^(?:autograd|torch::autograd)::"
_HOST = ("host_op_id", "layer", "rank", "tid", "sequence_id", "forward_id")
_SEPARATOR = 1
_FIRST_CHAR = 0x100  # from here on no character means something in `re`


@dataclass(frozen=True)
class Calls:
    """The innermost operators' calls that launched kernels of the window, in order of threads.

    `table`: call (host_op_id), rank, tid, kind, sequence_id, node (the backward node that it lies
    in, or null), of_call (the forward call that the node belongs to, or null), recorded (itself or
    the operator around it that autograd records, or null), in_step (of an optimizer), kernel_ns and
    kernels. `kinds` are names
    with arguments (None where none are recorded), `shapes` their shapes as they are written (lists
    of lists, too), `kernels` has device_op_id, name, length and
    call. In `text` a character stands for each call's name, and U+0001 between two threads;
    `call_of` and `kind_of` say of each place which call and kind it is. Left out there are calls in
    optimizer steps, which have rules of their own. `flop_per_s` are peaks by pipe of the fastest
    device of the run, `reached` what a benchmark reached with products of 16 bits.
    """

    table: pl.DataFrame
    kinds: list[tuple[str, Arguments | None]]
    shapes: list[Any]
    names: list[str]
    kernels: pl.DataFrame
    text: str
    call_of: list[int]
    kind_of: list[int]
    bytes_per_s: float | None
    flop_per_s: dict[str, float]
    run: Run


def code_name(number: int) -> str:
    """The character that stands for the name of this number in `Calls.text`."""
    return chr(_FIRST_CHAR + number)


def list_calls(run: Run) -> Calls | None:
    """The calls of a run; None where no operator launched a kernel."""
    return run.once(_list_calls)


def _list_calls(run: Run) -> Calls | None:
    if not run.rows("host_ops") or not run.rows("device_ops"):
        return None
    host = run.columns("host_ops", _HOST)
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
    spent = kernels.group_by("call").agg(kernel_ns=pl.col("length").sum(), kernels=pl.len())
    spent = spent.sort("call")
    caller = take_rows(host.drop("host_op_id"), find_rows(ids, spent.get_column("call")))
    table = sort_rows(spent.hstack(caller), ["rank", "tid", "call"])
    nodes = ids.filter(said.match(BACKWARD))
    node = find_host_ancestor(run, table.get_column("call"), nodes)
    of_call = host.get_column("forward_id").gather(find_rows(ids, node))
    recorded = operators.filter(
        operators.is_in(ids.filter(host.get_column("sequence_id").is_not_null()).implode())
    )
    outer = find_host_ancestor(run, table.get_column("call"), recorded)
    # What has the number of the backward node around it is the node's own work.
    number = host.get_column("sequence_id")
    own = number.gather(find_rows(ids, outer)) == number.gather(find_rows(ids, node))
    outer = outer.zip_with(~own.fill_null(value=False), outer.clear(outer.len()))
    steps = ids.filter(said.match(OPTIMIZER_STEP))
    step = find_host_ancestor(run, table.get_column("call"), steps)
    table = table.with_columns(
        node=node, of_call=of_call, recorded=outer, in_step=step.is_not_null()
    )
    table, kinds, shapes, names = _number_kinds(run, table)
    text, call_of, kind_of = _write_text(table)
    rates = find_memory_rate(run), find_peaks(run)
    return Calls(table, kinds, shapes, names, kernels, text, call_of, kind_of, *rates, run)


def _number_kinds(
    run: Run, table: pl.DataFrame
) -> tuple[pl.DataFrame, list[tuple[str, Arguments | None]], list[Any], list[str]]:
    """The table with numbers of names and of names with arguments, and what they stand for."""
    told = run.columns("host_ops", ["host_op_id", "name", *ARGUMENTS])
    rows = find_rows(told.get_column("host_op_id"), table.get_column("call"))
    told = told.select(pl.col("name", *ARGUMENTS).cast(pl.String).gather(rows))
    kind, different = number_groups(told, told.columns)
    kinds = [(name, parse_arguments(*args)) for name, *args in different.iter_rows()]
    shapes = [read_json(text) for text in different.get_column("input_shapes")]
    names = list(dict.fromkeys(name for name, _ in kinds))
    number = {name: i for i, name in enumerate(names)}
    name_of = pl.Series([number[name] for name, _ in kinds], dtype=pl.Int64)
    return table.with_columns(kind=kind, name=name_of.gather(kind)), kinds, shapes, names


def _write_text(table: pl.DataFrame) -> tuple[str, list[int], list[int]]:
    """A character for each call, with a separator where another thread or backward node begins.

    What follows each other on autograd's thread was not written so by anybody: each node there is
    by itself.
    """
    table = table.filter(~pl.col("in_step"))
    begins = pl.struct("rank", "tid", "node").rle_id()
    at = table.select(pl.int_range(pl.len(), dtype=pl.Int64) + begins.cast(pl.Int64)).to_series()
    length = int(at.item(-1)) + 1 if at.len() else 0

    def spread(values: pl.Series, between: int) -> list[int]:
        room = pl.repeat(between, length, dtype=pl.Int64, eager=True)
        return room.scatter(at, values.cast(pl.Int64)).to_list()

    codes = spread(table.get_column("name") + _FIRST_CHAR, _SEPARATOR)
    call_of, kind_of = (spread(table.get_column(c), -1) for c in ("call", "kind"))
    return "".join(map(chr, codes)), call_of, kind_of
