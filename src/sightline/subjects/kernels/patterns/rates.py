"""What this run's GPUs reach: the memory's rate and the peaks of the pipes."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.roofline.hardware import Gpu, find_gpu
from sightline.roofline.operator_roofs import place_operators

# Ours: several times what moves in the time that a launch takes, on any GPU.
_TELLING_BYTES = 32 << 20
# A run whose large passes all stay below half of the datasheet's rate has none that shows what the
# memory can do (ours: simple passes reach 80 to 95 % of it).
_NEAR = 0.5
REACHED = "reached"


def find_memory_rate(run: Run) -> float | None:
    """Bytes/s that the better quarter of the run's own large passes over memory reach.

    At most the datasheet's of the fastest device, which stands in where no pass comes near it.
    """
    own: float | None = (
        place_operators(run)
        .filter(pl.col("flop").is_null() & (pl.col("moved_bytes") >= _TELLING_BYTES))
        .select((1e9 * pl.col("moved_bytes") / pl.col("kernel_ns")).quantile(0.75))
        .item()
    )
    printed = max((gpu.number("memory_bandwidth") or 0.0 for gpu in _list_gpus(run)), default=0.0)
    if not printed:
        return own
    return min(own, printed) if own and own >= _NEAR * printed else printed


def find_peaks(run: Run) -> dict[str, float]:
    """FLOP/s by pipe of the fastest device; `reached`: what products of 16 bits reached on it."""
    peaks: dict[str, float] = {}
    for gpu in _list_gpus(run):
        own = dict(gpu.peaks())
        tensor = own.get("bf16_tensor") or own.get("fp16_tensor")
        reached = gpu.number("achievable.bf16_tensor") or tensor
        for pipe, rate in (*own.items(), *([(REACHED, reached)] if reached else [])):
            peaks[pipe] = max(rate, peaks.get(pipe, 0.0))
    return peaks


def _list_gpus(run: Run) -> list[Gpu]:
    devices = run.table("devices").select("name", "memory_bytes").iter_rows()
    return [gpu for name, memory in devices if (gpu := find_gpu(name, memory)) is not None]
