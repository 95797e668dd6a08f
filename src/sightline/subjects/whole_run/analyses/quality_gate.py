"""What limits the conclusions that this window allows: asked before any finding is believed.

Each check says what it found and what follows: `lowers` the confidence of findings, `blocks` a
kind of rule (which then abstains), or nothing (`ok`).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_span
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_note, format_pct, format_several
from sightline.timeline.coverage import note_lost_kernels
from sightline.timeline.engine_steps import list_engine_steps

ANALYSIS = Analysis(
    "quality_gate",
    "What limits the conclusions that this window allows?",
    (
        text("check", "what was looked at", required=True),
        text("effect", "ok, lowers or blocks", required=True),
        text("concerns", "all findings, host, overlap, steps or ranks", required=True),
        number("count", "how many records it concerns"),
        text("text", "what was found, for a person", required=True),
    ),
    notes=("lowers: findings that it concerns carry one grade less of confidence, and say so.",),
)

# A share of records that cannot bias a sum by more than a finding's own threshold of 5 %
# (TraceLens agent, 2026-08) is let pass.
SHARE_PCT = 5.0

Row = tuple[str, str, str, int | None, str]


def run(run: Run) -> pl.DataFrame:
    """One row per check."""
    rows = [*_recorded(run), *_device(run), *_host(run), *_steps(run), *_torch(run)]
    return pl.DataFrame(
        rows, schema=[c.name for c in ANALYSIS.columns], orient="row", infer_schema_length=None
    ).cast({c.name: c.dtype for c in ANALYSIS.columns})


def _recorded(run: Run) -> Iterator[Row]:
    """Warnings and errors that the importer wrote down: dropped records, damage, clock jumps."""
    rows = run.table("quality").filter(pl.col("severity").is_in(["warning", "error"]))
    for row in rows.unique("kind", keep="first", maintain_order=True).iter_rows(named=True):
        # An importer's text reads on from its count; a profiler's message is one as it is.
        count = None if row["kind"] == "profiler_message" else row["count"]
        note = format_note(count, row["text"])
        yield row["kind"], "lowers", "all", row["count"], note
    if rows.is_empty():
        yield "importer", "ok", "all", 0, "the importer reports no loss"


def _device(run: Run) -> Iterator[Row]:
    if not run.rows("device_ops"):
        yield "device", "blocks", "all", 0, "no device operations were recorded"
        return
    ops = run.table(
        "device_ops", ["rank", "device_id", "kind", "start_ns", "end_ns", "copy_kind", "launch_id"]
    )
    ops = select_starting_in(ops, run.ask("windows"))
    n = max(ops.height, 1)
    empty = ops.filter(pl.col("end_ns") == pl.col("start_ns")).height
    whole = ops.filter(pl.col("kind") == "graph").height
    yield _share("zero durations", "all", empty, n, "device operations have no duration")
    yield (
        "graphs",
        "lowers" if whole else "ok",
        "all",
        whole,
        format_note(
            whole,
            "graph launches were recorded as single operations: the kernels and gaps inside are "
            "unknown",
        ),
    )
    if (note := note_lost_kernels(run)) is not None:
        effect = "lowers" if note.severity == "warning" else "ok"
        yield "lost kernels", effect, "all", note.count, format_note(note.count, note.text)
    if run.rows("host_ops"):
        # No call launches a migration of managed memory.
        launched = ops.filter(~pl.col("copy_kind").str.starts_with("UVM").fill_null(value=False))
        lost, of = launched.get_column("launch_id").null_count(), max(launched.height, 1)
        yield _share("launches", "host", lost, of, "device operations have no recorded launch")
        early = run.ask("kernel_launches").filter(pl.col("launch_to_start_ns") < 0).height
        yield _share("clocks", "all", early, n, "device operations start before their launch")


def _host(run: Run) -> Iterator[Row]:
    if not run.rows("host_ops"):
        yield "host", "blocks", "host", 0, "no CPU activity was recorded: causes are unknown"
        return
    if not run.rows("device_ops"):
        return
    overhead = run.ask("idle").filter(pl.col("cause") == "profiler_overhead")
    pct = find_span(overhead, "window_pct")[1]
    yield (
        "profiler overhead",
        "lowers" if pct > SHARE_PCT else "ok",
        "all",
        None,
        f"the profiler itself holds up the device for {format_pct(pct)} of the window",
    )


def _steps(run: Run) -> Iterator[Row]:
    steps = run.scan("host_ops").filter(pl.col("layer") == "step").select("rank").collect()
    counts = [n for (n,) in steps.group_by("rank").len().select("len").rows()]
    fewest = min(counts, default=None)
    if fewest == 1:
        yield "steps", "lowers", "steps", 1, "only one step: what repeats is unknown"
    elif fewest is None and (engine := list_engine_steps(run).height):
        yield "steps", "ok", "steps", engine, "steps of the inference engine"
    elif fewest is None:
        yield "steps", "ok", "steps", 0, "no steps are marked: warm-up cannot be separated"
    else:
        yield "steps", "ok", "steps", fewest, "steps are marked"


def _torch(run: Run) -> Iterator[Row]:
    """What PyTorch's own validator looks for in its traces, besides kernels before their launch.

    Source: torch/profiler/_trace_validator.py (2.15), rules "derived from production issues". Its
    rule that no kernel runs when a stream's synchronization begins is not among them: a host that
    waits for a kernel breaks it, as 29 of 65 such waits in sound recordings do.
    """
    if "kineto" not in run.table("recordings").get_column("format"):
        return
    yield from _check_waits(run)
    moved = run.table("collectives")
    if moved.height:
        needed = ("op", "dtype", "elements_in", "elements_out", "group_size")
        bare = moved.filter(pl.any_horizontal(pl.col(needed).is_null())).height
        said = "collectives lack their operation, type, sizes or group"
        yield _share("collective metadata", "ranks", bare, moved.height, said)
    backward = (
        run.scan("host_ops")
        .filter(pl.col("sequence_id").is_not_null())
        .filter(pl.col("name").str.starts_with(_BACKWARD))
        .group_by("rank", "recording_id", "sequence_id")
        .agg(names=pl.col("name").n_unique())
        .collect()
    )
    if backward.height:
        shared = backward.filter(pl.col("names") > 1).height
        said = "sequence numbers belong to several backward operations: forward and backward mix"
        yield _share("sequence numbers", "host", shared, backward.height, said)


_BACKWARD = "autograd::engine::evaluate_function:"


def _check_waits(run: Run) -> Iterator[Row]:
    """Waits for events must name the call that recorded the event, which comes before them."""
    waits = run.table("syncs").filter(pl.col("kind").is_in(["stream_wait_event", "event"]))
    if waits.is_empty():
        return
    known = waits.filter(pl.col("recorded_by_correlation_id") >= 0)
    bare = waits.height - known.height
    # Before libkineto named the record, no wait does: then the order of streams is less well known.
    text = format_note(
        bare,
        f"of {format_several(waits.height, 'wait')} for events do not say which call recorded "
        "the event",
    )
    yield "waits", "ok", "overlap", bare, text
    records = (
        run.scan("host_ops")
        .filter(pl.col("name").str.contains("EventRecord"))
        .select("rank", "recording_id", "correlation_id", record_ns="start_ns")
        .collect()
        .unique(["rank", "recording_id", "correlation_id"], keep="first")
    )
    asked = known.filter(pl.col("kind") == "stream_wait_event")
    if asked.is_empty():
        return
    late = asked.join(
        records,
        left_on=["rank", "recording_id", "recorded_by_correlation_id"],
        right_on=["rank", "recording_id", "correlation_id"],
        how="left",
    ).filter(pl.col("record_ns") > pl.col("start_ns"))
    said = "waits name a record of an event that comes after them"
    yield _share("records", "overlap", late.height, asked.height, said)


def _share(check: str, concerns: str, count: int, of: int, said: str) -> Row:
    pct = 100 * count / of
    effect = "lowers" if pct > SHARE_PCT else "ok"
    return check, effect, concerns, count, f"{format_count(count)} of {format_count(of)} {said}"
