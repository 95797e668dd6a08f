"""What the rules on counters alone share: the use of each device while it was busy."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.device_use import (
    DEVICE,
    DRAM,
    HELD,
    OCCUPANCY,
    SHOWN,
    TRANSFERS,
    TRUE,
    average_over_time,
    sample_use,
)
from sightline.timeline.use_thresholds import EFFECTIVE_PCT, PIPES

# Of the sampled time: a device that is busy for less has another problem, which other rules name
# (ours: half).
_MOST_OF_TIME = 0.5
_SHOWN = (SHOWN, TRUE, OCCUPANCY, DRAM, TRANSFERS, *PIPES)


def list_busy_devices(run: Run) -> list[dict[str, Any]]:
    """Of devices that were busy for half of the time and more, the means over that time.

    rank, device_id, `busy_ns`, `busy_share` (0 to 1), and the metrics by name, null where none was
    read. Busy: a kernel ran for EFFECTIVE_PCT of a sample, or so many SMs had a warp. None where
    the recording has the device's operations: there kernels tell more.
    """
    if run.rows("device_ops"):
        return []
    samples = sample_use(run)
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    whole = samples.group_by(DEVICE).agg(whole_ns=length)
    busy = samples.filter(pl.max_horizontal(SHOWN, TRUE) >= EFFECTIVE_PCT)
    told = busy.group_by(DEVICE).agg(
        *(average_over_time(name) for name in _SHOWN), pl.col(HELD).max(), busy_ns=length
    )
    rows = told.join(whole, on=DEVICE).with_columns(
        busy_share=pl.col("busy_ns") / pl.col("whole_ns")
    )
    return (
        rows.filter(pl.col("busy_share") >= _MOST_OF_TIME)
        .sort("busy_ns", *DEVICE, descending=[True, False, False])
        .to_dicts()
    )


def write_use(row: dict[str, Any]) -> str:
    """A line for one device: every figure that was read."""
    parts = [
        f"{name} {row[name]:.0f} %" for name in _SHOWN if name in row and row[name] is not None
    ]
    return f"GPU {row['device_id']}: " + ", ".join(parts)
