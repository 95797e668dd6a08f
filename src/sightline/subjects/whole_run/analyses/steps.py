"""What each step cost, by the step's clock."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.cover import measure_cover_before
from sightline.core.algebra.lookup import find_rows, keep_rows
from sightline.core.model.columns import RANK, Column, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import CLASSES, classify_run
from sightline.timeline.iterations import list_marked_steps
from sightline.timeline.step_clock import clock_steps, list_steps

ANALYSIS = Analysis(
    "steps",
    "What did each step cost?",
    (
        RANK,
        Column("device_id", pl.Int64, "device; null where the recording has no device operations"),
        text("step", "text of the mark, or 'found #N'", required=True),
        time("start_ns", "end of the step before, by its clock"),
        time("end_ns", "end of its host part or of the work that it launched, the later one"),
        duration("duration_ns", "how long the step takes"),
        duration("compute_ns", "compute was running on the device during the step"),
        duration("exposed_comm_ns", "communication was running without compute"),
        duration("exposed_copy_ns", "a copy or memset was running, and none of the above"),
        duration("unknown_ns", "what was running only waits, or is of unknown purpose"),
        duration("idle_ns", "nothing was running on the device"),
        number("launched_ops", "device operations that were launched from the step's thread in it"),
        time("host_start_ns", "start of its mark on the host"),
        time("host_end_ns", "end of its mark on the host"),
    ),
    needs=("host_ops",),
    notes=(
        "A step ends where its mark does or where the last operation that it launched does, on a "
        "stream that all steps use, whichever is later; it begins where the one before ended. How "
        "far the host runs ahead changes nothing.",
        "The first begins at its mark, or where the work that was launched before it ends.",
        "Where none is marked: the iterations that were found (`iterations`), unless unsure.",
        "Of several processes in one recording each device has the steps of its own.",
        "The four parts of a device sum to duration_ns to the nanosecond.",
    ),
)


_BY = ["rank", "device_id"]


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and step, in order of time."""
    ops = classify_run(run).select(*_BY, "stream_id", "start_ns", "end_ns", "class_", "launch_id")
    host = run.table("host_ops", ["host_op_id", "start_ns", "pid"])
    calls = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    ops = ops.select(
        *_BY,
        "stream_id",
        "start_ns",
        "end_ns",
        "class_",
        called_ns=host.get_column("start_ns").gather(calls),
        pid=host.get_column("pid").gather(calls),
    )
    rows = _clock_marked(run, ops) if run.rows("host_ops") else None
    if rows is None or rows.is_empty():
        found = list_steps(run).filter(pl.col("confidence") != "low")
        rows = ops.select(_BY).unique().join(found, on="rank")
    rows = rows.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    # Of steps that start together the last one counts for all of them.
    spans = rows.unique([*_BY, "start_ns"], keep="last", maintain_order=True)
    parts = [_parts(spans.clear(), ops.clear())]
    for key, mine in ops.partition_by(_BY, as_dict=True).items():
        own = spans.filter(pl.col("rank") == key[0], pl.col("device_id") == key[1])
        if own.height:
            parts.append(_parts(own, mine))
    return (
        rows.join(pl.concat(parts), on=[*_BY, "start_ns"], how="left")
        .with_columns(pl.col("launched_ops").fill_null(0))
        .sort("rank", "device_id", "start_ns", maintain_order=True)
        .select(c.name for c in ANALYSIS.columns)
    )


def _clock_marked(run: Run, ops: pl.DataFrame) -> pl.DataFrame:
    """The marked steps of each device's process, by their clock."""
    steps = list_marked_steps(run)
    on = ["rank", "pid"]
    clocked = [
        clock_steps(mine, ops.filter(pl.col("rank") == rank, pl.col("pid").eq_missing(pid)))
        for (rank, pid), mine in steps.partition_by(on, as_dict=True, maintain_order=True).items()
    ]
    known = pl.concat(clocked) if clocked else clock_steps(steps, ops)
    return _find_processes(ops, steps).join(known, on=on, nulls_equal=True)


def _find_processes(ops: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """For each device the process whose steps are its own: rank, device_id (or null), pid.

    The one that launches most on it of those that mark steps; else the one that marks most.
    """
    marking = steps.group_by("rank", "pid").agg(n=pl.len())
    usual = marking.sort("n", "pid", descending=[True, False]).unique(
        "rank", keep="first", maintain_order=True
    )
    launching = (
        ops.join(marking, on=["rank", "pid"], how="semi")
        .group_by(*_BY, "pid")
        .agg(n=pl.len())
        .sort("n", "pid", descending=[True, False])
        .unique(_BY, keep="first", maintain_order=True)
    )
    return (
        usual.select("rank", usual="pid")
        .join(ops.select(_BY).unique(), on="rank", how="left")
        .join(launching.select(*_BY, "pid"), on=_BY, how="left")
        .select(*_BY, pid=pl.coalesce("pid", "usual"))
    )


def _parts(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What one device did in each of the spans (rank, start_ns, end_ns, sorted).

    `ops` are its operations, with the class and when the call that launched each was made.
    """
    start = spans.get_column("start_ns")
    # A moment belongs to the step that began last.
    until = spans.select(pl.min_horizontal("end_ns", pl.col("start_ns").shift(-1))).to_series()
    taken = pl.repeat(0, spans.height, dtype=pl.Int64, eager=True)
    parts: dict[str, pl.Series] = {}
    for count, class_ in enumerate(CLASSES, 1):
        # What a class adds to the cover of those before it is its own.
        known = keep_rows(ops, ops.get_column("class_").is_in(CLASSES[:count]))
        cover = measure_cover_before(known, until) - measure_cover_before(known, start)
        parts[f"{class_}_ns"], taken = cover - taken, cover
    called = ops.get_column("called_ns").drop_nulls()
    begun, ended = spans.get_column("host_start_ns"), spans.get_column("host_end_ns")
    step = begun.search_sorted(called, side="right").cast(pl.Int64) - 1
    inside = step.filter((step >= 0) & (called < ended.gather(step.clip(lower_bound=0))))
    launched = (
        spans.select(step=pl.int_range(pl.len(), dtype=pl.Int64))
        .join(
            inside.alias("step").value_counts(name="n"),
            on="step",
            how="left",
            maintain_order="left",
        )
        .get_column("n")
    )
    answer = {**parts, "idle_ns": until - start - taken, "launched_ops": launched}
    device = pl.lit(ops.get_column("device_id").first(), pl.Int64)
    return spans.select("rank", "start_ns", device_id=device, **answer)
