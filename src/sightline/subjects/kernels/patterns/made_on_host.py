"""Tensors that operators on the CPU make in each step, and that are then sent to the GPU.

A mask, positions, noise, a batch of made-up data: the GPU could make it where it is used, and what
is the same in every step could be made once.
"""

from __future__ import annotations

from math import prod

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.run import Run
from sightline.roofline.operators.arguments import read_json
from sightline.subjects.kernels.patterns.calls import Calls, list_calls
from sightline.subjects.kernels.patterns.declare import Pattern, keep_nothing, make_matches
from sightline.timeline.host_ranges import find_host_ancestor, list_host_names

# Operators that make a tensor of nothing but numbers (PyTorch, "Creation Ops").
_MADE = r"^aten::(?:zeros|ones|full|rand|randn|randint|randperm|arange|eye|linspace)(?:_like)?$"
_MOVES = r"^aten::(?:to|copy_)$"
# Operators that write every element without reading another tensor (ATen, native_functions.yaml).
# What makes a tensor calls one of them: aten::full fill_, aten::randn normal_.
_MAKES = (
    r"^aten::(?:fill_|zero_|normal_|uniform_|random_|bernoulli_|exponential_|log_normal_|eye|"
    r"arange|linspace|full|ones|zeros|randint|randperm)$"
)
_UPLOAD = r"HtoD|HostToDevice"
_LEAST_BYTES = 65_536  # smaller ones are the small copies' (timeline/copies.py)
_LEAST_TIMES = 2  # what is sent once is not a step's
_THREAD = ["rank", "pid", "tid"]
_HOST = ("host_op_id", "layer", "start_ns", "end_ns", "input_shapes", *_THREAD)


def _find(calls: Calls) -> pl.DataFrame:
    """The copies to the GPU of what was made on the CPU: nothing of them has to stay."""
    uploads = calls.kernels.filter(pl.col("name").str.contains(_UPLOAD)).get_column("call")
    if uploads.is_empty():
        return make_matches(())
    known = pl.concat(
        [_list_right_before(calls, uploads), calls.run.once(_list_made).get_column("call")]
    )
    return keep_nothing(calls.table.filter(pl.col("call").is_in(known.implode())))


def _list_ranges(calls: Calls) -> pl.DataFrame:
    """Where threads make these tensors: from the first operator that does to the copy."""
    return calls.run.once(_list_made).select(*_THREAD, start_ns="made_ns", end_ns="sent_ns")


def _list_right_before(calls: Calls, uploads: pl.Series) -> pl.Series:
    """The copies of which the operator right before made a tensor, whatever its shape."""
    host = calls.run.columns("host_ops", ["host_op_id", "parent_id", "rank", "tid", "layer"])
    names = list_host_names(calls.run)
    host = host.with_columns(made=names.match(_MADE), moves=names.match(_MOVES))
    siblings = host.filter(pl.col("layer") == "op").sort("host_op_id")
    behind = siblings.with_columns(
        after=pl.col("made").shift(1).over("rank", "tid", "parent_id")
    ).filter(pl.col("moves") & pl.col("after").fill_null(value=False))
    moved = find_host_ancestor(calls.run, uploads, behind.get_column("host_op_id"))
    return uploads.filter(moved.is_not_null())


def _list_made(run: Run) -> pl.DataFrame:
    """The copies' calls, with `made_ns` and `sent_ns`: rank, pid, tid, call.

    Operators take at least half of the time from the first that makes such a tensor to the copy.
    """
    nothing = pl.DataFrame(
        schema={"call": pl.Int64, "made_ns": pl.Int64, "sent_ns": pl.Int64}
        | dict.fromkeys(_THREAD, pl.Int64)
    )
    calls = list_calls(run)
    copies = None if calls is None else _list_copies(calls)
    if calls is None or copies is None or copies.height < _LEAST_TIMES:
        return nothing
    host = run.columns("host_ops", _HOST)
    names = list_host_names(run)
    made = host.filter((host.get_column("layer") == "op") & names.match(_MAKES))
    launching = calls.table.join(copies, on="call", how="anti").select("call")
    launches = host.filter(pl.col("host_op_id").is_in(launching["call"].implode()))
    here = host.select("host_op_id", *_THREAD, "start_ns")
    sent = copies.join(here, left_on="call", right_on="host_op_id").sort("start_ns")
    # The last work of another kind that the thread launched ends what belongs to the step before.
    before = launches.select(*_THREAD, since_ns="start_ns").sort("since_ns")
    sent = sent.join_asof(
        before, left_on="start_ns", right_on="since_ns", by=_THREAD, check_sortedness=False
    ).with_columns(pl.col("since_ns").fill_null(0))
    makers = (
        made.with_columns(elements=_count_elements(made.get_column("input_shapes")))
        .drop_nulls("elements")
        .select(*_THREAD, "elements", made_ns="start_ns", done_ns="end_ns")
        .sort("made_ns")
    )
    inside = sent.sort("since_ns").join_asof(
        makers,
        left_on="since_ns",
        right_on="made_ns",
        by=[*_THREAD, "elements"],
        strategy="forward",
        check_sortedness=False,
    )
    inside = inside.filter(pl.col("done_ns") <= pl.col("start_ns")).rename({"start_ns": "sent_ns"})
    ops = host.filter((host.get_column("layer") == "op") & names.match(r"^aten::"))
    worked = measure_cover_between(inside, "made_ns", "sent_ns", ops, _THREAD)
    kept = inside.filter(2 * worked >= inside.get_column("sent_ns") - inside.get_column("made_ns"))
    return kept.select(nothing.columns) if kept.height >= _LEAST_TIMES else nothing


def _list_copies(calls: Calls) -> pl.DataFrame:
    """Calls of aten::copy_ that send much to the GPU: call, and the elements of what is sent."""
    uploads = calls.kernels.filter(pl.col("name").str.contains(_UPLOAD))
    sizes = {
        kind: prod(shapes[1])
        for kind, (name, _) in enumerate(calls.kinds)
        if name == "aten::copy_" and (shapes := calls.shapes[kind]) and _is_shape(shapes, 1)
    }
    known = pl.DataFrame(
        {"kind": list(sizes), "elements": list(sizes.values())},
        schema={"kind": pl.Int64, "elements": pl.Int64},
    ).filter(pl.col("elements") >= _LEAST_BYTES // 4)
    mine = calls.table.join(uploads.select("call").unique(), on="call", how="semi")
    return mine.join(known, on="kind").select("call", "elements")


def _is_shape(shapes: object, at: int) -> bool:
    """Whether an argument's shape was recorded."""
    if not isinstance(shapes, list) or len(shapes) <= at or not isinstance(shapes[at], list):
        return False
    return bool(shapes[at]) and all(type(n) is int for n in shapes[at])


def _count_elements(shapes: pl.Series) -> pl.Series:
    """How many elements the first argument has, where its shape was recorded."""
    texts = shapes.cast(pl.String)
    counts = {
        text: prod(read[0]) if _is_shape(read := read_json(text), 0) else None
        for text in texts.drop_nulls().unique().to_list()
    }
    return texts.replace_strict(counts, default=None, return_dtype=pl.Int64)


PATTERNS = (
    Pattern(
        "made-on-host",
        "Tensors made on the host and copied",
        _find,
        cause="tensors of zeros, other constants or random numbers are made on the host and "
        "copied to the GPU",
        fix="create them on the GPU (torch.full, torch.randn and the like take device= and "
        "dtype=), or once before the loop where they are the same in every step",
        source="torch.profiler: ExtraCUDACopyPattern; PyTorch Performance Tuning Guide: Create "
        "tensors directly on the target device",
        with_backward=False,
        ranges=_list_ranges,
    ),
)
