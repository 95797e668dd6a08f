"""The report as data: what `sightline report --json` prints and every view shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.answer.answer import Answer
from sightline.answer.bandwidth import summarize_bandwidth
from sightline.answer.functions import list_hot_functions
from sightline.answer.marks import summarize_marks
from sightline.answer.memory import summarize_memory
from sightline.answer.requests import summarize_requests
from sightline.answer.sampled import is_only_sampled, list_sampled_kernels
from sightline.answer.serving import summarize_serving
from sightline.answer.system import summarize_system
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.core.stages import stage
from sightline.diagnosis.causes import Causes, find_causes
from sightline.diagnosis.gaps import are_the_profilers
from sightline.replay.unrecorded import remove_recorder
from sightline.subjects.devices.use import note_warming, summarize_use
from sightline.subjects.memory.conservation import note_broken_memory
from sightline.subjects.ncu.kernel_rows import list_kernel_rows, list_vendor_messages
from sightline.timeline.coverage import note_lost_kernels
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.host_parts import PYTHON, has_only_host
from sightline.timeline.run_labels import label_run_kernels
from sightline.timeline.segments import REPEATING, select_repeating

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule

TOP_KERNELS = 10
# Device operations up to which the ladder is replayed for every report: half a second (ours).
MOST_REPLAYED = 200_000
_FIGURES = ("duration_ns", "sm_pct", "memory_pct", "achieved_pct", "theoretical_pct")
_SEVERITY = {"error": 0, "warning": 1, "info": 2}


def answer_run(run: Run, own: Sequence[OwnRule] = (), *, whole: bool = False) -> Answer:
    """Everything that views draw; `own` and `whole` as in `find_causes`.

    Whatever the causes are asked of, what is added up is of the whole run.
    """
    with stage("ask the rules"):
        causes = find_causes(run, own, whole=whole)
    run = select_repeating(run)
    with stage("make the tables of the screen"):
        return _summarize(run, causes)


def _summarize(run: Run, causes: Causes) -> Answer:
    has_device = bool(run.rows("device_ops"))
    ops = [] if has_device or not run.rows("host_ops") else _host_ops(run)
    profiled = list_kernel_rows(run) if _is_profiled(run) else []
    # Kernels of which nothing but counts by stack is known are shown by these.
    has_figures = any(row[name] is not None for row in profiled for name in _FIGURES)
    is_shown = has_figures or (run.rows("profiled_kernels") and not profiled)
    only_stacks = not (has_device or ops or is_shown)
    use = summarize_use(run)
    return Answer(
        recordings=run.table("recordings").to_dicts(),
        devices=_devices(run),
        window=run.ask("windows").to_dicts() if has_device else [],
        segments=list_segments(run),
        breakdown=run.ask("breakdown").to_dicts() if has_device else [],
        host_breakdown=_list_host_parts(run) if has_only_host(run) else [],
        step_usage=run.ask("step_usage").to_dicts() if run.rows("counters") else [],
        counts={name: run.rows(name) for name in run.present()},
        window_operations=_count_in_window(run) if has_device else 0,
        unrecorded=_describe_unrecorded(run) if causes.unrecorded is None else causes.unrecorded,
        ladder=list_ladder(run) if has_device and not causes.sample else [],
        findings=[f.to_dict() for f in causes.findings],
        kernels=_kernels(run) if has_device else [],
        idle=run.ask("idle").to_dicts() if has_device else [],
        profiled_kernels=profiled,
        sampled_kernels=list_sampled_kernels(run) if is_only_sampled(run) else [],
        vendor_messages=list_vendor_messages(run),
        ops=ops,
        functions=list_hot_functions(run) if only_stacks else [],
        use=use,
        marks=summarize_marks(run),
        memory=summarize_memory(run),
        requests=summarize_requests(run),
        system=summarize_system(run, has_ops=bool(ops)),
        bandwidth=summarize_bandwidth(run) if run.rows("bandwidth_tests") else [],
        serving=summarize_serving(run),
        limits=[*list_limits(run), *note_warming(use["devices"])],
        sample=causes.sample,
    )


def _describe_unrecorded(run: Run) -> dict[str, Any]:
    """The fields of `Unrecorded` that are times; none where the recorder is unknown or small."""
    bare = remove_recorder(run)
    if bare is None:
        return {}
    names = ("recorded_ns", "ns", "low_ns", "high_ns", "is_step")
    return {name: getattr(bare, name) for name in names}


def list_segments(run: Run) -> list[dict[str, Any]]:
    """What a run whose answers are about what repeats is made of; nothing of another one."""
    return run.ask("segments").to_dicts() if run.window == REPEATING else []


def list_ladder(run: Run) -> list[dict[str, Any]]:
    """The ladder of limits of the program without its recorder; none of a very large run.

    Each step of it is a replay of the whole graph.
    """
    if run.rows("device_ops") > MOST_REPLAYED or are_the_profilers(run):
        return []
    bare = remove_recorder(run)
    return (run if bare is None else bare.run).ask("limits").to_dicts()


def _is_profiled(run: Run) -> bool:
    return bool(run.rows("profiled_kernels")) and not is_only_sampled(run)


def _count_in_window(run: Run) -> int:
    """GPU operations that start in their device's window, as the analyses count them."""
    ops = run.table("device_ops", ["rank", "device_id", "start_ns", "end_ns"])
    return select_starting_in(ops, run.ask("windows")).height


def _devices(run: Run) -> list[dict[str, Any]]:
    """The devices that did something, or all that are known if none did."""
    devices = run.table("devices").select("rank", "device_id", "vendor", "name", "sm_count")
    used = run.table("device_ops", ["rank", "device_id"]).unique()
    if used.height:
        devices = devices.join(used, on=["rank", "device_id"], how="semi")
    return devices.sort("rank", "device_id").to_dicts()


def _kernels(run: Run) -> list[dict[str, Any]]:
    top = run.ask("kernels").head(TOP_KERNELS).to_dicts()
    labels = label_run_kernels(run)
    return [{**row, "short_name": labels.get(row["name"], row["name"])} for row in top]


def _host_ops(run: Run) -> list[dict[str, Any]]:
    ops = run.ask("ops").sort("host_self_ns", descending=True)
    return ops.head(TOP_KERNELS).to_dicts()


def list_limits(run: Run) -> list[dict[str, Any]]:
    """What limits the conclusions: quality rows, those of several recordings taken together."""
    rows = run.table("quality")
    for note in (note_lost_kernels(run), note_broken_memory(run)):
        if note is not None:
            own = {"rank": 0, "recording_id": 0, **dataclasses.asdict(note)}
            rows = pl.concat([rows, pl.DataFrame([own], schema=rows.schema)])
    if list_engine_steps(run).height:  # they are the steps: nobody has to mark others
        rows = rows.filter(pl.col("kind") != "no_steps")
    if rows.is_empty():
        return []
    # A kind of which one recording says several things, as a profiler's own messages, is kept apart
    # by what is said; else the texts of several recordings differ in numbers only.
    several = pl.col("text").n_unique().over("recording_id", "kind", "severity").max()
    return (
        rows.with_columns(_said=pl.when(several.over("kind", "severity") > 1).then("text"))
        .group_by("kind", "severity", "_said", maintain_order=True)
        .agg(
            pl.col("text").first(),
            pl.col("remedy").first(),
            pl.col("count").sum(),
            counted=pl.col("count").is_not_null().any(),
            recordings=pl.col("recording_id").n_unique(),
        )
        .with_columns(count=pl.when("counted").then("count"))
        .with_columns(_times_said())
        .drop("counted")
        .with_columns(_order=pl.col("severity").replace_strict(_SEVERITY, return_dtype=pl.Int8))
        .sort("_order", maintain_order=True)
        .drop("_order", "_said")
        .to_dicts()
    )


def _times_said() -> list[pl.Expr]:
    """A profiler's own message counts how often it came, not things: 'it says: ... (10 times)'."""
    message = pl.col("kind") == "profiler_message"
    often = pl.format("{} ({} times)", "text", "count")
    return [
        pl.when(message & (pl.col("count") > 1)).then(often).otherwise("text").alias("text"),
        pl.when(~message).then("count").alias("count"),
    ]


def _list_host_parts(run: Run) -> list[dict[str, Any]]:
    """What the main thread did: Python, outside of all operators, only where it was recorded."""
    rows: list[dict[str, Any]] = run.ask("host_breakdown").to_dicts()
    layers = run.columns("host_ops", ("layer",)).get_column("layer").cast(pl.String)
    if (layers == "python").any():
        return rows
    return [
        {**row, "part": "outside operators" if row["part"] == PYTHON else row["part"]}
        for row in rows
    ]
