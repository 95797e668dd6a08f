"""The memory that shows in use is XLA's pool, and not what the program needs.

Symptom
    nvidia-smi shows three quarters or nine tenths of the GPU's memory in use by a JAX program, from
    its first operation to its end, whatever it computes.

Why it hurts
    It looks like a program that is near its limit, and no other fits beside it.

Evidence
    The memory in use of the device over time, which does not move, as share of what it has.
    What compiled programs need is in `sightline stats program_memory`, where XLA's profile has it.

Threshold
    Over 60 % of the device's memory, and no change over 1 % of it after the first tenth of the
    samples (ours). XLA takes 75 % today and took 90 % until 2022.

Fix
    XLA_PYTHON_CLIENT_MEM_FRACTION=.30 takes less; XLA_PYTHON_CLIENT_PREALLOCATE=false takes memory
    as it is needed, and keeps it (it may double a pool that is full, and fragment);
    XLA_PYTHON_CLIENT_ALLOCATOR=platform gives it back at once, and is slow.

False positives
    A program that takes as much by itself at its start, as an inference server for its cache.

References
    JAX documentation, "GPU memory allocation".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.timeline.world import read_world

RULE = Rule("preallocated-pool", "Memory in use is XLA's pool")
LEAST_PCT, STEADY_PCT = 60.0, 1.0
_USED, _TOTAL = "memory used", "memory total"
_LEAST_SAMPLES = 10


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, about the device that shows most; only of programs of JAX."""
    if not run.rows("counters") or read_world(run).framework != "jax":
        return
    shares = _list_shares(run)
    if not shares:
        return
    device, used, total = max(shares, key=lambda row: row[1] / row[2])
    yield build_finding(
        RULE,
        f"GPU {device} shows {100 * used / total:.0f} % of its memory in use throughout: that is "
        "the pool that XLA takes at its start, and not what the program needs.",
        Evidence(
            [
                f"{format_bytes(used)} of {format_bytes(total)}, without a change",
                *_describe_programs(run),
            ],
            where={"devices": [device]},
        ),
        Advice(
            fix="XLA_PYTHON_CLIENT_MEM_FRACTION=.30, or XLA_PYTHON_CLIENT_PREALLOCATE=false to "
            "see what is needed",
            verify="nvidia-smi with XLA_PYTHON_CLIENT_PREALLOCATE=false",
            cause="XLA preallocates most of the device's memory",
            sources=("JAX documentation: GPU memory allocation",),
        ),
        severity="info",
        confidence="medium",
    )


def _list_shares(run: Run) -> list[tuple[int, int, int]]:
    """(device, bytes in use, bytes in all) of devices whose use does not move."""
    counters = run.table("counters", ["metric", "device_id", "time_ns", "value"]).drop_nulls()
    devices = run.table("devices", ["device_id", "memory_bytes"]).drop_nulls()
    totals = dict(devices.iter_rows()) | {
        device: int(value)
        for device, value in counters.filter(metric=_TOTAL).select("device_id", "value").iter_rows()
    }
    found = []
    for (device,), mine in counters.filter(metric=_USED).sort("time_ns").group_by("device_id"):
        total = totals.get(device)
        if not total or mine.height < _LEAST_SAMPLES:
            continue
        later = mine.tail(-(-9 * mine.height // 10)).select(
            low=pl.col("value").min(), high=pl.col("value").max()
        )
        low, high = later.row(0)
        if 100 * low >= LEAST_PCT * total and 100 * (high - low) <= STEADY_PCT * total:
            found.append((int(device), int(high), int(total)))
    return found


def _describe_programs(run: Run) -> list[str]:
    """What the largest compiled program needs, where XLA said so."""
    if not run.rows("program_buffers"):
        return ["what compiled programs need is not in the recording"]
    table = run.ask("program_memory").filter(pl.col("memory_space") == 0)
    if table.is_empty():
        return []
    row = table.sort("total_bytes", descending=True).row(0, named=True)
    needed = row["peak_bytes"] if row["peak_bytes"] is not None else row["total_bytes"]
    return [f"the largest compiled program, {row['program']}, needs {format_bytes(needed)}"]
