"""Kernels of several streams run one after another, though they would fit beside each other.

Symptom
    Two streams or more that take turns: one works while the other waits for an event.

Why it hurts
    A kernel of few blocks leaves multiprocessors empty. Streams are there to fill them, and an
    event, a synchronization or the legacy default stream that orders independent work undoes that.

Evidence
    Kernels that waited for a kernel of another stream, by an event wait before their launch or by
    their timing, with grids that fit the device together: blocks over what all multiprocessors
    hold at once by threads, registers and shared memory. The gain is a replay without these waits,
    no shorter than the device is filled: a bound, since the recording does not say which waits the
    results need.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for exposed communication).
    Silent where the streams overlap for over a tenth of what the second one has to do (ours:
    streams that overlap by chance do so at their hand-overs only).

Fix
    Wait only for what is read: record the event behind the kernel that writes it, not behind all
    that follows; create streams with cudaStreamNonBlocking, or compile with
    --default-stream per-thread.

False positives
    Streams that hand their results to each other need their waits; then one stream would do.

References
    CUDA C++ Programming Guide, "Streams" (implicit synchronization, default stream); CUDA Runtime
    API, "Stream synchronization behavior".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, Loss, keep_notable, make_finding
from sightline.replay.gains import sum_windows
from sightline.replay.graph import list_nodes
from sightline.roofline.launch import limit_device
from sightline.roofline.occupancy import Launch, compute_occupancy
from sightline.subjects.kernels.rules._shared import list_computing

RULE = Rule("serialized-streams", "Streams that take turns")

OVERLAP_SHARE = 0.1
# CUPTI's number of the legacy default stream (CUPTI documentation, CUpti_ActivityKernel: streamId).
_DEFAULT_STREAM = 7
_OFTEN = 10  # waits in each direction that are no chance (ours)
_DEVICE = ["rank", "device_id"]
_SHAPE = ["registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes"]
_GRID = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not run.rows("host_ops"):
        return
    kernels = list_computing(run)
    kernels = kernels.join(_find_serial_devices(kernels), on=_DEVICE, how="semi")
    if kernels.is_empty():
        return
    kernels = _add_share(run, kernels)
    waits = _list_waits(run, kernels)
    if waits.is_empty():
        return
    ids = waits.get_column("node").implode()
    filled = kernels.group_by(_DEVICE).agg(
        ns=(pl.col("length") * pl.col("share").fill_null(1.0)).sum().round().cast(pl.Int64)
    )
    lost = _measure_lost(kernels, waits, filled)
    found = make_finding(
        run,
        RULE,
        "Kernels that would fit at the same time run one after another, on streams that wait for "
        f"one another: {format_pct(100 * sum_column(lost, 'ns') / sum_windows(run))} of the "
        "window.",
        Loss(
            cost_ns=sum_column(lost, "ns"),
            bound_ns=find_largest(lost, "ns"),
            change=lambda nodes: nodes.with_columns(
                wait=pl.when(~pl.col("node").is_in(ids)).then("wait")
            ),
            floor_ns=find_largest(filled, "ns"),
        ),
        Evidence(
            [
                f"{format_several(waits.height, 'kernel')} waited for another stream's, ready "
                f"{format_ns(sum_column(waits, 'late_ns'))} earlier in all",
                f"a kernel fills {format_pct(100 * _average_share(kernels))} of the multiprocessors"
                ", by its grid, on average over their time",
            ],
            rows=_list_longest(waits),
            where={
                "ranks": waits.get_column("rank").unique().sort().to_list(),
                "stream_id": waits.item(0, "stream_id"),
            },
        ),
        Advice(
            fix="check which of these waits the results need: record an event directly after the "
            "kernel that writes what is read; create streams with cudaStreamNonBlocking, so that "
            "the legacy default stream does not order them",
            verify="sightline stats streams AFTER: streams that overlap",
            cause=_name_cause(waits),
            sources=("CUDA C++ Programming Guide: Streams",),
        ),
        confidence="medium" if _is_in_both_directions(waits) else "low",
        is_bound=True,
    )
    yield from keep_notable(run, found)


def _find_serial_devices(kernels: pl.DataFrame) -> pl.DataFrame:
    """The devices with several streams of kernels that hardly overlap."""
    spans = kernels.select(*_DEVICE, "stream_id", "start_ns", "end_ns")
    each = measure_cover(spans, [*_DEVICE, "stream_id"])
    whole = measure_cover(spans, _DEVICE).rename({"covered_ns": "whole_ns"})
    streams = each.group_by(_DEVICE).agg(
        second=pl.col("covered_ns").sort(descending=True).get(1, null_on_oob=True),
        sum=pl.col("covered_ns").sum(),
    )
    overlap = pl.col("sum") - pl.col("whole_ns")
    return streams.join(whole, on=_DEVICE).filter(overlap <= OVERLAP_SHARE * pl.col("second"))


def _add_share(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `share`, how much of the device their blocks fill at once; null if not known."""
    shapes = run.columns("device_ops", ["device_op_id", *_SHAPE])
    kernels = kernels.join(shapes, on="device_op_id", how="left", maintain_order="left")
    devices = run.table("devices").select(*_DEVICE, "sm_count", "compute_capability")
    key = [*_DEVICE, *_GRID, *_SHAPE]
    kinds = kernels.select(key).unique().join(devices, on=_DEVICE, how="left")
    shares = [_measure_share(row) for row in kinds.iter_rows(named=True)]
    known = kinds.select(key).with_columns(pl.Series("share", shares, pl.Float64))
    return kernels.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")


def _measure_share(row: dict[str, Any]) -> float | None:
    """Blocks of the grid over what all multiprocessors hold of them, at most 1."""
    sizes = [row[name] for name in (*_GRID, "registers_per_thread", "sm_count")]
    limits = limit_device(row["compute_capability"])
    if limits is None or None in sizes:
        return None
    x, y, z, *block, registers, multiprocessors = sizes
    shared = sum(row[name] or 0 for name in _SHAPE[1:])
    threads = block[0] * block[1] * block[2]
    held = compute_occupancy(limits, Launch(threads, registers, shared)).active_blocks
    return min(x * y * z / (held * multiprocessors), 1.0) if held and multiprocessors else None


def _list_waits(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels that waited for one of another stream which they fit beside, and for how long."""
    nodes = list_nodes(run)
    known = kernels.select("device_op_id", "share")
    began, ended = nodes.get_column("start_ns"), nodes.get_column("end_ns")
    ready = pl.max_horizontal(
        pl.lit(ended.gather(nodes.get_column("prev"))) + pl.col("prev_lag_ns"),
        pl.lit(began.gather(nodes.get_column("launch"))) + pl.col("launch_lag_ns"),
    )
    other = nodes.get_column("wait")
    return (
        nodes.with_columns(
            ready=ready,
            other=nodes.get_column("ref_id").gather(other),
            other_kind=nodes.get_column("kind").gather(other),
            other_stream=nodes.get_column("stream_id").gather(other),
            other_device=nodes.get_column("device_id").gather(other),
        )
        .filter(
            pl.col("kind") == "kernel",
            pl.col("other_kind") == "kernel",
            pl.col("other_stream") != pl.col("stream_id"),
            pl.col("other_device") == pl.col("device_id"),
        )
        .join(known, left_on="ref_id", right_on="device_op_id")
        .join(known, left_on="other", right_on="device_op_id", suffix="_of_other")
        .filter(pl.col("share") + pl.col("share_of_other") <= 1)
        .with_columns(late_ns=pl.col("start_ns") - pl.col("ready"))
        .filter(pl.col("late_ns") > 0)
        .sort("node")
    )


def _measure_lost(kernels: pl.DataFrame, waits: pl.DataFrame, filled: pl.DataFrame) -> pl.DataFrame:
    """Per device, `ns`: how long kernels waited.

    At most what they leave empty while they run, and what all streams but the busiest have to do.
    """
    waited = measure_cover(waits.select(*_DEVICE, start_ns="ready", end_ns="start_ns"), _DEVICE)
    busy = measure_cover(kernels.select(*_DEVICE, "start_ns", "end_ns"), _DEVICE)
    each = kernels.group_by(*_DEVICE, "stream_id").agg(pl.col("length").sum())
    rest = each.group_by(_DEVICE).agg(rest_ns=pl.col("length").sum() - pl.col("length").max())
    room = busy.rename({"covered_ns": "busy_ns"}).join(filled, on=_DEVICE).join(rest, on=_DEVICE)
    empty = (pl.col("busy_ns") - pl.col("ns")).clip(lower_bound=0)
    return waited.join(room, on=_DEVICE).select(
        *_DEVICE, ns=pl.min_horizontal("covered_ns", empty, "rest_ns")
    )


def _average_share(kernels: pl.DataFrame) -> float:
    known = kernels.drop_nulls("share").select(
        filled=(pl.col("share") * pl.col("length")).sum(), whole=pl.col("length").sum()
    )
    filled, whole = known.row(0)
    return float(filled / max(whole, 1))


def _name_cause(waits: pl.DataFrame) -> str:
    """What orders the streams, as far as it is recorded."""
    told = waits.filter(pl.col("wait_by") == "event").height
    if 2 * told >= waits.height:
        return "event waits (cudaStreamWaitEvent) order the streams"
    if _is_by_default_stream(waits):
        return (
            "no event wait is recorded there, and stream 7 is the legacy default stream: it waits "
            "for all blocking streams, and they for it"
        )
    return "no event wait is recorded there: what orders the streams is not known"


def _is_in_both_directions(waits: pl.DataFrame) -> bool:
    """Whether the default stream waits for others, and others behind it, again and again.

    That is no chance: it orders all streams that were not made to ignore it. What ended last before
    a kernel behind it may be the one that it had waited for itself.
    """
    default = pl.col("stream_id") == _DEFAULT_STREAM
    counts = waits.select(its=default.sum(), others=(~default).sum()).row(0)
    return _is_by_default_stream(waits) and min(counts) >= _OFTEN


def _is_by_default_stream(waits: pl.DataFrame) -> bool:
    """Whether most waits are for a kernel of the legacy default stream, or one of it for others."""
    default = (pl.col("stream_id") == _DEFAULT_STREAM) | (pl.col("other_stream") == _DEFAULT_STREAM)
    told = pl.col("wait_by") == "event"
    return 2 * waits.filter(default & ~told.fill_null(value=False)).height >= waits.height


def _list_longest(waits: pl.DataFrame) -> list[dict[str, object]]:
    return (
        waits.sort("late_ns", "node", descending=[True, False])
        .head(MAX_ROWS)
        .select(
            "rank", "device_id", "stream_id", "start_ns", "end_ns", "late_ns", device_op_id="ref_id"
        )
        .to_dicts()
    )
