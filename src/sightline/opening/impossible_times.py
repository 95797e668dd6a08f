"""What a clock, a stream and a launch can do: times that break it are left out or repaired, once.

Every importer's tables come through here, so that nothing behind rests on a time that cannot be:

- A clock does not jump. Work that lies a day and more from all other work, and a hundred times as
  far as that is long, has a time that was not taken: CUPTI writes 0 where it has none ("start, end:
  if both are 0, the time could not be collected", CUpti_ActivityKernel).
- A stream runs in order. An operation in which three and more later ones of its stream begin and
  end did not last so long: its end was not written (ROCm, TraceLens #669), and it ended, at the
  latest, where the next one began. Where many do so, the number is not a stream's, and where graphs
  ran, their nodes have one stream and run side by side: nothing is touched.
- A launch starts one kernel. Of several that are tied to one call which launches no graph, the
  later ones are of calls whose numbers were lost (ROCm, Kineto #1416) or of another process.
- A launch comes first, and its work follows. An operation that begins before the call that it is
  tied to, or a day later, was not launched by that call, or its clock is another one.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.columns import write_constant
from sightline.core.model.declare import Imported, Quality
from sightline.core.units import format_ns

CHECKS = 3  # raise it when what is said of all imports changes, so that cached ones are made again
_DAY_NS = 86_400 * 10**9  # no profiler's buffers reach so far (ours)
_FAR = 100  # times the length of the rest (ours: a job that sleeps for a day works for minutes)
_WITHIN = 3  # programmatic dependent launch lets a kernel's successor begin early, and no third
_FEW = 0.02  # of a stream's operations: more that overlap are not damage but how it was recorded
_OUTLIER = 10  # times the median of its name: other reasons make all of a name long
# Clocks of host and GPU are converted into one another: 0.1 ms apart at most in the corpus (ours).
_EARLY_NS = 1_000_000

# CUDA Runtime and Driver API, "Execution Control"; HIP, "Execution Control", "Module Management".
_LAUNCHES_ONE = (
    r"^(?:cudaLaunchKernel|cudaLaunchCooperativeKernel|cuLaunchKernel|cuLaunchCooperativeKernel"
    r"|hipLaunchKernel|hipExtLaunchKernel|hipModuleLaunchKernel|hipExtModuleLaunchKernel"
    r"|hipLaunchCooperativeKernel)(?:Ex|ExC|_ptsz)?(?:_v\d+)?$"
)

_OPS = ("device_op_id", "device_id", "context_id", "stream_id", "kind", "copy_kind", "name",
        "start_ns", "end_ns", "launch_id", "graph_id", "graph_node_id")  # fmt: skip


class Faults(NamedTuple):
    """Operations by id: those to leave out, new ends, and those to untie from their calls."""

    lost: pl.Series
    ends: pl.DataFrame  # device_op_id, end_ns
    untied: pl.Series
    notes: list[Quality]

    def untie(self, surplus: pl.Series) -> Faults:
        """The same with kernels that are tied to a launch which already has one."""
        if not surplus.len():
            return self
        text = "kernels have the number of a launch that started another one: they are not tied"
        note = Quality("shared_launches", "warning", text, surplus.len())
        untied = pl.concat([self.untied, surplus]).unique(maintain_order=True)
        return self._replace(untied=untied, notes=[*self.notes, note])


def repair_times(imported: Imported) -> None:
    """Leave out or repair the operations whose times cannot be, and say how many."""
    ops = _take(imported, "device_ops", _OPS)
    if ops is None or not ops.height:
        return
    faults = find_faults(ops, _take(imported, "host_ops", ("host_op_id", "start_ns", "end_ns")))
    if (shared := _list_sharing(ops)).height:
        calls = _take(imported, "host_ops", ("host_op_id", "name"))
        faults = faults.untie(_find_surplus(shared, calls))
    imported.quality += faults.notes
    if not (faults.lost.len() or faults.ends.height or faults.untied.len()):
        return
    kept = ~pl.col("device_op_id").is_in(faults.lost.implode())
    frame = _pop_whole(imported, "device_ops").filter(kept)
    if faults.ends.height:
        frame = frame.update(faults.ends, on="device_op_id")
    if "launch_id" in frame.columns:
        early = pl.col("device_op_id").is_in(faults.untied.implode())
        frame = frame.with_columns(launch_id=pl.when(~early).then("launch_id"))
    imported.tables["device_ops"] = frame
    collectives = imported.tables.get("collectives")
    if collectives is not None and "device_op_id" in collectives.columns:
        imported.tables["collectives"] = collectives.filter(kept)


def find_faults(ops: pl.DataFrame, calls: pl.DataFrame | None) -> Faults:
    """What cannot be among device operations, and what to do about each."""
    notes = []
    lost = _find_far(ops, calls)
    if lost.len():
        text = "GPU operations at a time that no clock can have were left out"
        remedy = "The profiler had no time for them: update the driver and the profiler."
        notes.append(Quality("impossible_times", "warning", text, lost.len(), remedy))
    rest = ops.filter(~pl.col("device_op_id").is_in(lost.implode())) if lost.len() else ops
    ends = _find_ends(rest)
    if ends.height:
        over = int((ends.get_column("old_end_ns") - ends.get_column("end_ns")).sum())
        text = (
            f"operations with an end after later ones of their stream, by {format_ns(over)}: "
            "their ends cannot be trusted, and are set to where the next one begins"
        )
        notes.append(Quality("impossible_ends", "warning", text, ends.height))
    early = _find_untied(rest, calls)
    if early.len():
        linked = rest.get_column("launch_id").drop_nulls().len()
        text = "GPU operations do not follow the calls that they are tied to: the ties are dropped"
        if early.len() * 2 > linked:
            text = (
                "the GPU's clock is not the host's: operations do not follow their launches, and "
                "what the host did meanwhile is unknown"
            )
        notes.append(Quality("impossible_launches", "warning", text, early.len()))
    return Faults(lost, ends.select("device_op_id", "end_ns"), early, notes)


def _find_far(ops: pl.DataFrame, calls: pl.DataFrame | None) -> pl.Series:
    """Operations that lie far from most others."""
    none = pl.Series("device_op_id", [], pl.Int64)
    length = ops.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item()
    if length is not None and 0 <= length < _DAY_NS:
        return none
    placed = ops.select("device_op_id", "start_ns", "end_ns").sort("start_ns", maintain_order=True)
    start, before = pl.col("start_ns"), pl.col("end_ns").cum_max().shift(1)
    # Differences of two times can exceed 64 bits: as floats, whose error is no matter here.
    is_far = (start.cast(pl.Float64) - before.cast(pl.Float64)) > _DAY_NS
    groups = placed.with_columns(group=is_far.fill_null(value=False).cum_sum())
    begins, finishes = start.cast(pl.Float64).min(), pl.col("end_ns").cast(pl.Float64).max()
    summed = groups.group_by("group", maintain_order=True).agg(
        n=pl.len(), begins=begins, finishes=finishes
    )
    # Of as many, those that lie among the host's calls; then the later ones.
    near = pl.lit(value=False)
    if calls is not None and calls.height:
        low, high = calls.get_column("start_ns").min(), calls.get_column("end_ns").max()
        near = (pl.col("begins") <= high) & (pl.col("finishes") >= low)
    ordered = summed.with_columns(near=near).sort("n", "near", "group")
    main = ordered.row(-1, named=True)
    span = main["finishes"] - main["begins"]
    gap = pl.max_horizontal(
        pl.col("begins") - main["finishes"], main["begins"] - pl.col("finishes")
    )
    far = ordered.filter(gap > _FAR * max(span, 1)).get_column("group")
    return groups.filter(pl.col("group").is_in(far.implode())).get_column("device_op_id")


def _find_ends(ops: pl.DataFrame) -> pl.DataFrame:
    """Operations whose ends lie behind several later operations of their stream, with a new end."""
    stream = ["device_id", "context_id", "stream_id"]
    alone = pl.col("graph_id").is_null() & pl.col("graph_node_id").is_null()
    length = pl.col("end_ns") - pl.col("start_ns")
    # Pages of unified memory move for kernels that run: they stand in no stream's order.
    is_page = pl.col("copy_kind").cast(pl.String).str.starts_with("UVM").fill_null(value=False)
    in_order = pl.col("stream_id").is_not_null() & alone & ~is_page
    none = pl.DataFrame(
        schema={"device_op_id": pl.Int64, "end_ns": pl.Int64, "old_end_ns": pl.Int64}
    )
    if ops.height <= _WITHIN:  # no operation has as many later ones
        return none
    # Of nearly all recordings it is none, as their times alone show: names are not moved for that.
    times = ops.select(*stream, "start_ns", "end_ns", in_order=in_order).filter("in_order")
    if not times.sort(*stream, "start_ns", "end_ns").select(_list_holds(stream).any()).item():
        return none
    ordered = (
        ops.filter(in_order)
        .sort(*stream, "start_ns", "end_ns", maintain_order=True)
        .with_columns(usual=length.median().over("name"), stream_ops=pl.len().over(stream))
        .with_columns(next_start=pl.col("start_ns").shift(-1).over(stream))
    )
    found = ordered.filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset"]) & _list_holds(stream)
    )
    if not found.height:
        return none
    few = pl.len().over(stream) <= (_FEW * pl.col("stream_ops")).ceil()
    return (
        found.filter(few)
        .filter((length > _OUTLIER * pl.col("usual")) | (pl.col("usual") == length))
        .select("device_op_id", end_ns="next_start", old_end_ns="end_ns")
    )


def _list_holds(stream: list[str]) -> pl.Expr:
    """Whether an operation ends behind several later ones of its stream, which began after it.

    In order of stream and start: the later one is as many rows on.
    """
    later_start, later_end = (pl.col(c).shift(-_WITHIN) for c in ("start_ns", "end_ns"))
    is_same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(-_WITHIN)) for c in stream)
    return is_same & (pl.col("end_ns") > later_end) & (later_start > pl.col("start_ns"))


def _find_untied(ops: pl.DataFrame, calls: pl.DataFrame | None) -> pl.Series:
    """Operations that begin before their calls, by more than clocks are apart, or a day later."""
    launches = ops.get_column("launch_id")
    if calls is None or not calls.height or launches.null_count() == launches.len():
        return pl.Series("device_op_id", [], pl.Int64)
    rows = find_rows(calls.get_column("host_op_id"), launches)
    called = calls.get_column("start_ns").gather(rows).cast(pl.Float64)
    late = called - ops.get_column("start_ns").cast(pl.Float64)  # null without a call
    return ops.get_column("device_op_id").filter((late > _EARLY_NS) | (late < -_DAY_NS))


def _list_sharing(ops: pl.DataFrame) -> pl.DataFrame:
    """Kernels outside of graphs whose launch has several, by start."""
    launches = ops.get_column("launch_id").drop_nulls()
    if launches.n_unique() == launches.len():
        return ops.select("device_op_id", "launch_id", "start_ns").clear()
    alone = pl.col("graph_id").is_null() & pl.col("graph_node_id").is_null()
    kernels = ops.filter(alone & (pl.col("kind") == "kernel"), pl.col("launch_id").is_not_null())
    several = kernels.filter(pl.col("launch_id").is_duplicated())
    return several.select("device_op_id", "launch_id", "start_ns").sort("start_ns", "device_op_id")


def _find_surplus(shared: pl.DataFrame, calls: pl.DataFrame | None) -> pl.Series:
    """Of kernels that share a call which launches one kernel all but the first."""
    if calls is None:
        return pl.Series("device_op_id", [], pl.Int64)
    plain = calls.filter(
        pl.col("host_op_id").is_in(shared.get_column("launch_id").unique().implode()),
        pl.col("name").cast(pl.String).str.contains(_LAUNCHES_ONE),
    )
    later = shared.filter(~pl.col("launch_id").is_first_distinct())
    of_plain = pl.col("launch_id").is_in(plain.get_column("host_op_id").implode())
    return later.filter(of_plain).get_column("device_op_id")


def _take(imported: Imported, name: str, columns: tuple[str, ...]) -> pl.DataFrame | None:
    """Some columns of a table, wherever it is made; those that it lacks are null."""
    frame = imported.tables.get(name)
    whole = imported.large.get(name) if frame is None else frame
    if whole is None:
        return None
    present = whole.collect_schema().names()
    constants = imported.constants.get(name, {})
    texts = ("kind", "copy_kind", "name")
    taken = whole.select(
        pl.col(c)
        if c in present
        else write_constant(constants.get(c), pl.String if c in texts else pl.Int64, c)
        for c in columns
    )
    return taken.collect() if isinstance(taken, pl.LazyFrame) else taken


def _pop_whole(imported: Imported, name: str) -> pl.DataFrame:
    """All of a table, which is in memory from now on."""
    whole, lazy = imported.whole.pop(name, None), imported.large.pop(name, None)
    if whole is not None:
        return whole.make()
    return imported.tables[name] if lazy is None else lazy.collect()
