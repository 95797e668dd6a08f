"""What each marked step cost."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.cover import measure_cover_before
from sightline.core.algebra.lookup import find_rows, keep_rows
from sightline.core.model.columns import RANK, Column, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.classes import CLASSES, classify_run
from sightline.timeline.iterations import list_marked_steps

ANALYSIS = Analysis(
    "steps",
    "What did each marked step cost?",
    (
        RANK,
        Column("device_id", pl.Int64, "device; null where the recording has no device operations"),
        text("step", "text of the mark", required=True),
        time("start_ns", "start of the step on the host"),
        time("end_ns", "end of the step on the host"),
        duration("duration_ns", "length of the step"),
        duration("compute_ns", "compute was running on the device during the step"),
        duration("exposed_comm_ns", "communication was running without compute"),
        duration("exposed_copy_ns", "a copy or memset was running, and none of the above"),
        duration("unknown_ns", "what was running only waits, or nobody knows what it does"),
        duration("idle_ns", "nothing was running on the device"),
        number("launched_ops", "device operations that were launched from the step's thread in it"),
    ),
    needs=("host_ops",),
    notes=(
        "A step is the span of its mark on the host; work of the step before may still run in it.",
        "Of several processes in one recording each device has the steps of its own.",
        "The four parts of a device sum to duration_ns to the nanosecond.",
    ),
)


_BY = ["rank", "device_id"]


def run(run: Run) -> pl.DataFrame:
    """One row per rank, device and step, in order of time."""
    steps = list_marked_steps(run).with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    ops = classify_run(run).select(*_BY, "start_ns", "end_ns", "class_", "launch_id")
    host = run.table("host_ops", ["host_op_id", "start_ns", "pid"])
    calls = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    ops = ops.select(
        *_BY,
        "start_ns",
        "end_ns",
        "class_",
        called_ns=host.get_column("start_ns").gather(calls),
        pid=host.get_column("pid").gather(calls),
    )
    process = _find_processes(ops, steps)
    rows = process.join(steps, on=["rank", "pid"], nulls_equal=True)
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
    start, end = spans.get_column("start_ns"), spans.get_column("end_ns")
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
    step = start.search_sorted(called, side="right").cast(pl.Int64) - 1
    inside = step.filter((step >= 0) & (called < end.gather(step.clip(lower_bound=0))))
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
