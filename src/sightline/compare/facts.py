"""What two runs must have in common to be compared, read once of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.window import host_in
from sightline.core.model.run import Run
from sightline.subjects.devices.analyses.slow_clocks import CLOCK
from sightline.timeline.coverage import note_lost_kernels
from sightline.timeline.step_usage import sum_usage

OPTIONS = {"has_stacks": "Python stacks", "has_shapes": "input shapes"}
# Figures beside the step time, and their units.
METRICS = {
    "launches": "per step",
    "in graphs": "% of the operations",
    "peak memory": "bytes",
    "energy": "J per step",
}
# NVML's total energy of a device, in J, as sightline samples it (record/nvml/sampling.py).
_ENERGY = ("energy", "J")


@dataclass(frozen=True)
class Facts:
    """What a run says of where and how it was recorded, and figures beside its step.

    `shapes` are the calls of operators per step by `name` and `input_shapes`; `options` what was
    recorded besides, of OPTIONS; `losses` what importers could not read: kind, text and count.
    `metrics` are those of METRICS that are known. `queued_pct` is for how much of its time the main
    thread was ready to run and had no CPU, of the rank with most of it, where that was counted.
    """

    devices: tuple[str, ...]
    world_size: int | None
    clock_mhz: float | None
    shapes: pl.DataFrame
    tools: tuple[str, ...]
    versions: tuple[str, ...]
    options: frozenset[str]
    losses: tuple[tuple[str, str, int | None], ...]
    metrics: Mapping[str, float]
    queued_pct: float | None = None


def read_facts(run: Run, leaves: pl.DataFrame, count: int, *, has_steps: bool) -> Facts:
    """The facts of a run in its window, of `count` steps × devices made of `leaves`."""
    recordings = run.table("recordings")
    size = recordings.get_column("world_size").max()
    lost = run.table("quality").filter(pl.col("severity") == "error")
    return Facts(
        devices=_list_device_names(run),
        world_size=size if isinstance(size, int) else None,
        clock_mhz=_read_clock(run),
        shapes=_count_shapes(run, count, has_steps=has_steps),
        tools=_list_values(recordings, "tool"),
        versions=_list_values(recordings, "tool_version"),
        options=frozenset(o for o in OPTIONS if recordings.get_column(o).any()),
        losses=(
            *lost.unique("kind", maintain_order=True).select("kind", "text", "count").rows(),
            *_list_lost_kernels(run),
        ),
        metrics=_read_metrics(run, leaves, count),
        queued_pct=_read_queued(run),
    )


def _read_queued(run: Run) -> float | None:
    share = sum_usage(run).get_column("queued_pct").max()
    return share if isinstance(share, float) else None


def _list_lost_kernels(run: Run) -> list[tuple[str, str, int | None]]:
    note = note_lost_kernels(run)
    return [] if note is None or note.severity == "info" else [(note.kind, note.text, note.count)]


def _list_device_names(run: Run) -> tuple[str, ...]:
    """What the GPUs are called that did something in a run.

    Where they are numbered otherwise than those that the recording describes, and these are all
    alike, it is those.
    """
    used = run.table("device_ops", ["rank", "device_id"]).unique()
    devices = run.table("devices").drop_nulls("name")
    mine = devices.join(used, on=["rank", "device_id"], how="semi").get_column("name").unique()
    every = devices.get_column("name").unique()
    return tuple(sorted(mine if mine.len() else every if every.len() == 1 else []))


def _list_values(recordings: pl.DataFrame, column: str) -> tuple[str, ...]:
    return tuple(sorted({str(v) for v in recordings.get_column(column).drop_nulls()}))


def _find_span(run: Run) -> tuple[int, int]:
    """From the first device's window to the last one's, ns."""
    windows = run.ask("windows")
    span = windows.select(pl.col("window_start_ns").min(), pl.col("window_end_ns").max())
    return span.row(0)


def _read_clock(run: Run) -> float | None:
    """The median SM clock in the window, MHz, where it was sampled."""
    if not run.rows("device_ops"):
        return None
    counters = run.scan("counters").filter(
        pl.col("metric").str.contains(CLOCK), pl.col("value") > 0
    )
    since, until = _find_span(run)
    known = counters.filter(pl.col("time_ns") <= until).sort("time_ns").collect()
    inside = known.filter(pl.col("time_ns") >= since)
    # A clock that changed before the window, and was not sampled since, is still that.
    value = (inside if inside.height else known.tail(1)).get_column("value").median()
    if not isinstance(value, float):
        return None
    return value / 1e6 if value >= 1e6 else value  # some tools count Hz


def _count_shapes(run: Run, count: int, *, has_steps: bool) -> pl.DataFrame:
    """Calls of operators per step in the window, by name and shapes of their inputs."""
    host = run.scan("host_ops").filter(
        pl.col("layer") == "op", pl.col("input_shapes").is_not_null()
    )
    if run.rows("device_ops") and has_steps:
        known = host.collect()
        host = known.filter(host_in(known, run.ask("windows"), whole_recording=False)).lazy()
    return (
        host.group_by("name", "input_shapes")
        .agg(calls=pl.len() / max(count, 1))
        .collect()
        .with_columns(calls=pl.col("calls").round(3))
    )


def _read_metrics(run: Run, leaves: pl.DataFrame, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    if run.rows("device_ops"):
        rows = leaves.filter(pl.col("part") != "idle")
        if not _list_lost_kernels(run):  # a hole is a hole, and not fewer launches
            found["launches"] = float(rows.get_column("instances").sum()) / count
        ops = run.table("device_ops")
        in_graph = ops.filter((pl.col("kind") == "graph") | pl.col("graph_id").is_not_null())
        found["in graphs"] = 100 * in_graph.height / max(ops.height, 1)
        energy = _measure_energy(run)
        if energy is not None:
            found["energy"] = energy / count
    if run.rows("memory_events"):
        peak: Any = run.scan("memory_events").select(pl.col("allocated_bytes").max())
        peak = peak.collect().item()
        if peak is not None:
            found["peak memory"] = float(peak)
    return found


def _measure_energy(run: Run) -> float | None:
    """J that all devices took in the window, from their energy counters, where they were sampled.

    Between two samples the counter is taken to rise evenly. None where no device's samples span
    the window.
    """
    since, until = _find_span(run)
    samples = (
        run.scan("counters")
        .filter(pl.col("metric") == _ENERGY[0], pl.col("unit") == _ENERGY[1])
        .select("rank", "device_id", "time_ns", "value")
        .sort("time_ns")
        .collect()
    )
    edges = pl.Series("time_ns", [since, until], pl.Int64)
    joules = 0.0
    for mine in samples.partition_by("rank", "device_id"):
        times = mine.get_column("time_ns")
        if times[0] > since or times[-1] < until:
            return None
        known = pl.concat([mine, edges.to_frame()], how="diagonal").sort("time_ns")
        at = known.with_columns(pl.col("value").interpolate_by("time_ns")).filter(
            pl.col("time_ns").is_in(edges.implode())
        )
        joules += float(at.get_column("value")[-1] - at.get_column("value")[0])
    return joules if samples.height else None
