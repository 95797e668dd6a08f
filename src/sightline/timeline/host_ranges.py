"""What the launching threads did between their calls: how much of it lies in given ranges."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.latest import find_next
from sightline.core.algebra.lookup import Texts, mark_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.algebra.trees import find_nearest_ancestor, find_parents
from sightline.core.model.run import Run
from sightline.timeline.api_calls import begins_capture, builds_graph, ends_capture
from sightline.timeline.loader_starts import list_loader_starts
from sightline.timeline.page_waits import list_read_back
from sightline.timeline.runtimes import RANGE, match_runtimes
from sightline.timeline.system_calls import keep_ranges_of_processes

_THREAD = ["rank", "pid", "tid"]
_TREE = ["host_op_id", "parent_id"]
IN_API = pl.col("layer").is_in(["runtime", "driver"])
# PyTorch's own name of the wait for a batch, and what people call theirs.
LOADING = r"(?i)dataloader"
# What a thread may take, back from what held it, until its next launch: a Python line or two and
# an operator or ten (ours; eager PyTorch launches every 10 to 50 µs). Longer is work of its own.
PACE_NS = 250_000


def measure_in_ranges(nodes: pl.DataFrame, ranges: pl.DataFrame, by: list[str]) -> pl.Series:
    """For each node, how much of the time since the call before it lies in the ranges, ns."""
    if ranges.is_empty():
        return pl.repeat(0, nodes.height, dtype=pl.Int64, eager=True)
    spans = nodes.select(
        *by, until="start_ns", since=pl.col("start_ns") - pl.col("prev_lag_ns").fill_null(0)
    )
    found = measure_cover_between(spans, "since", "until", ranges, by)
    return found.clip(lower_bound=0)


def find_host_ancestor(run: Run, ids: pl.Series, wanted: pl.Series) -> pl.Series:
    """For each host operation itself or its nearest ancestor that is wanted (both ids), or null."""
    up = run.once(_list_parents)
    return find_nearest_ancestor(run.table("host_ops", _TREE), ids, wanted, up=up)


def _list_parents(run: Run) -> pl.Series:
    return find_parents(run.table("host_ops", _TREE))


def list_host_names(run: Run) -> Texts:
    """The names of all host operations, in their order, to be asked for patterns."""
    return run.once(_list_host_names)


def _list_host_names(run: Run) -> Texts:
    return Texts(run.table("host_ops", ["name"]).get_column("name"))


def measure_loading(run: Run, nodes: pl.DataFrame) -> pl.Series:
    """How much of the time before each call its thread spent in a data loader, ns."""
    return measure_in_ranges(nodes, _list_loading_ranges(run), _THREAD)


def measure_held(run: Run, nodes: pl.DataFrame, waits: pl.DataFrame) -> pl.Series:
    """How much of the time before each call its thread loaded data, or could not run (`waits`)."""
    columns = [*_THREAD, "start_ns", "end_ns"]
    loading = _list_loading_ranges(run)
    return measure_in_ranges(
        nodes, pl.concat([loading.select(columns), waits.select(columns)]), _THREAD
    )


def _list_loading_ranges(run: Run) -> pl.DataFrame:
    host = run.table("host_ops", [*_THREAD, "layer", "start_ns", "end_ns"])
    names = list_host_names(run)
    loading = host.filter(names.match(LOADING))
    inside = loading.filter(~pl.col("layer").is_in(["runtime", "driver"]))
    return pl.concat([inside, run.once(_list_loader_starts)])


def _list_loader_starts(run: Run) -> pl.DataFrame:
    host = run.table("host_ops", [*_THREAD, "layer", "start_ns", "end_ns"])
    return list_loader_starts(host, list_host_names(run))


def measure_loader_starts(run: Run) -> int:
    """How long all threads are silent while a DataLoader starts its workers for a pass, ns."""
    starts = run.once(_list_loader_starts)
    return sum_column(starts.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")


def find_usual_interval(nodes: pl.DataFrame) -> int:
    """The median time between two calls, but no more than what is a pace."""
    value = nodes.get_column("prev_lag_ns").filter(nodes.get_column("kind") == "call").median()
    return min(int(value), PACE_NS) if isinstance(value, int | float) else 0


def measure_long_thinking(
    run: Run, nodes: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame
) -> pl.Series:
    """How much longer than usual the time before each call is, beside these gaps, ns.

    What the thread compiled, loaded or captured meanwhile is not counted, nor `waits` (rank, pid,
    tid, start_ns, end_ns), in which it could not run, nor the pages of unified memory that it read:
    those are other problems'.
    """
    above = nodes.get_column("prev_lag_ns").fill_null(0) - find_usual_interval(nodes)
    rows = (above > 0).arg_true()
    nothing = pl.repeat(0, nodes.height, dtype=pl.Int64, eager=True)
    nodes = nodes.select(*_THREAD, "device_id", "start_ns", "prev_lag_ns")[rows]
    beside = measure_in_ranges(nodes, gaps, ["rank", "device_id"]) > 0
    other = measure_in_ranges(nodes, list_compiler_ranges(run), _THREAD)
    other += measure_loading(run, nodes)
    other += measure_in_ranges(nodes, list_capture_ranges(run), _THREAD)
    other += measure_in_ranges(nodes, list_read_back(run), ["rank", "device_id"])
    if not waits.is_empty():
        columns = [*_THREAD, "start_ns", "end_ns"]
        deeds = [list_compiler_ranges(run), _list_loading_ranges(run)]
        known = pl.concat([each.select(columns) for each in deeds])
        every = pl.concat([known, waits.select(columns)])
        other += measure_in_ranges(nodes, every, _THREAD)
        other -= measure_in_ranges(nodes, known, _THREAD)
    long = (above[rows] - other).clip(lower_bound=0)
    return nothing.scatter(rows, long * beside.cast(pl.Int64))


def find_long_intervals(nodes: pl.DataFrame, pace: pl.DataFrame, held: pl.Series) -> pl.Series:
    """Which host nodes lie between two launches that are further apart than the host's pace.

    What the thread waits in between does not count, nor what it was `held` by before each node, ns:
    that is another problem's. `pace` has `rank`, `device_id` and `pace_ns`;
    of other devices no interval is long. What lies behind the last launch is of an interval, too.
    """
    chain = ["rank", "pid", "device_id"]
    launching = mark_rows(nodes.get_column("launch"), nodes.height) & (
        nodes.get_column("kind") == "call"
    )
    is_host = (nodes.get_column("kind") == "call") | (nodes.get_column("kind") == "finish")
    length = pl.col("end_ns") - pl.col("start_ns")
    host = (
        nodes.select(
            *chain, "kind", "start_ns", "end_ns", "prev_lag_ns", launching=launching, held=held
        )
        .filter(is_host)
        .join(pace, on=["rank", "device_id"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            interval=pl.col("launching").shift(1, fill_value=False).cum_sum().over(chain),
            ns=pl.when(pl.col("kind") == "call").then(
                pl.col("prev_lag_ns").fill_null(0) - pl.col("held") + length
            ),
        )
        .with_columns(ns=pl.col("ns").sum().over(*chain, "interval"))
    )
    long = (host.get_column("ns") > host.get_column("pace_ns")).fill_null(value=False)
    nothing = pl.repeat(value=False, n=nodes.height, eager=True)
    return nothing.scatter(is_host.arg_true().filter(long), True)


def measure_long_calls(nodes: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.Series:
    """How much of these gaps each call that launches nothing takes above a usual call, ns.

    Creating a stream is such a call: the thread works in it. Where a call waits, that is another
    node; building a graph is another problem's, and so are `waits` of the thread for the system.
    """
    by = ["rank", "device_id"]
    is_call = nodes.get_column("kind") == "call"
    length = nodes.get_column("end_ns") - nodes.get_column("start_ns")
    usual = length.filter(is_call).median()
    above = length - round(usual if isinstance(usual, float) else 0.0)
    # Of half a million calls a few are asked about.
    rows = (is_call & (above > 0)).arg_true()
    rows = rows.filter(~mark_rows(nodes.get_column("launch"), nodes.height).gather(rows))
    calls = nodes.select(*by, "pid", "tid", "start_ns", "end_ns", ns=above)[rows]
    inside = measure_cover_between(calls, "start_ns", "end_ns", gaps, by)
    waited = measure_cover_between(calls, "start_ns", "end_ns", waits, _THREAD)
    long = calls.get_column("ns") - waited
    cut = pl.select(pl.min_horizontal(pl.lit(long), pl.lit(inside))).to_series()
    nothing = pl.repeat(0, nodes.height, dtype=pl.Int64, eager=True)
    return nothing.scatter(rows, cut.clip(lower_bound=0).fill_null(0))


# Compilers and autotuners as recordings name them (runtimes.tsv). Of Inductor only functions that
# compile count: compiled code runs below a frame of the same file.
COMPILING = match_runtimes(RANGE)


def is_compiler(names: Texts) -> pl.Series:
    """Which ranges are a compiler at work."""
    return names.match(COMPILING)


def list_compiler_ranges(run: Run) -> pl.DataFrame:
    """The ranges in which a thread compiled: rank, pid, tid, name, start_ns, end_ns."""
    ranges, names = list_ranges(run)
    return ranges.filter(is_compiler(names)).select(
        "rank", "pid", "tid", "name", "start_ns", "end_ns"
    )


# Saving as libraries name it: torch.save and torch.distributed.checkpoint as Python frames,
# Transformers' save_pretrained, and save_checkpoint (Lightning, DeepSpeed, Megatron-LM, Flax) or
# its like as people call theirs. Activation checkpointing (torch.utils.checkpoint) saves nothing.
_SAVING = (
    r"(?i)(?:save|write|dump)_?(?:\w+_)?(?:checkpoint|ckpt)"
    r"|(?:checkpoint|ckpt)[ _.:]*(?:save|saving|write|writing|dump)"
    r"|torch/serialization\.py\(\d+\): _?(?:legacy_)?save|state_dict_saver\.py\(\d+\): "
    r"|save_pretrained"
)


def is_saving(names: Texts) -> pl.Series:
    """Which ranges write a checkpoint."""
    return names.match(_SAVING)


def list_saving_ranges(run: Run) -> pl.DataFrame:
    """The ranges in which a thread writes a checkpoint, as `list_ranges` has them."""
    return run.once(_list_saving_ranges)


def _list_saving_ranges(run: Run) -> pl.DataFrame:
    ranges, names = list_ranges(run)
    return ranges.filter(is_saving(names) & ~ranges.select(IN_API).to_series())


def list_capture_ranges(run: Run) -> pl.DataFrame:
    """The time in which a thread captures or builds graphs: rank, pid, tid, start_ns, end_ns.

    From the begin of a capture to its end, and each call that builds one; `host_op_id` is the call
    that it begins with.
    """
    return run.once(_list_capture_ranges)


def _list_capture_ranges(run: Run) -> pl.DataFrame:
    ranges, names = list_ranges(run)
    is_api = ranges.select(IN_API).to_series()
    begins = ranges.filter(begins_capture(names) & is_api)
    ends = ranges.filter(ends_capture(names) & is_api)
    builds = ranges.filter(builds_graph(names) & is_api)
    key = ["host_op_id", *_THREAD, "start_ns", "end_ns"]
    after = find_next(begins, "start_ns", ends, "start_ns", _THREAD, ties=["host_op_id"])
    captured = begins.with_columns(
        end_ns=pl.coalesce(pl.lit(ends.get_column("end_ns").gather(after)), "end_ns")
    )
    return pl.concat([captured.select(key), builds.select(key)]).sort("host_op_id")


def list_ranges(run: Run) -> tuple[pl.DataFrame, Texts]:
    """Ranges by what they are, and their names.

    A cost that the driver reports of itself goes by its kind. System calls are none where a trace
    of the whole system has them: no range of the program's is around them.
    """
    return run.once(_list_ranges)


def list_range_parents(run: Run) -> pl.Series:
    """The row of each of `list_ranges`' parents, or null."""
    return run.once(_list_range_parents)


def _list_range_parents(run: Run) -> pl.Series:
    ranges, _ = list_ranges(run)
    is_all = ranges.height == run.rows("host_ops")
    return run.once(_list_parents) if is_all else find_parents(ranges)


def _list_ranges(run: Run) -> tuple[pl.DataFrame, Texts]:
    columns = ["host_op_id", "parent_id", *_THREAD, "layer", "start_ns", "end_ns"]
    used = [*columns, "name", "category", "recording_id"]
    host = keep_ranges_of_processes(run, run.table("host_ops", used))
    is_cost = pl.col("layer") == "overhead"
    if host.select(is_cost.any()).item():
        name = pl.when(is_cost).then(pl.coalesce("category", "name")).otherwise("name")
        ranges = host.select(*columns, name=name)
        return ranges, Texts(ranges.get_column("name"))
    ranges = host.select(*columns, "name")
    is_all = ranges.height == run.rows("host_ops")
    return ranges, list_host_names(run) if is_all else Texts(ranges.get_column("name"))
