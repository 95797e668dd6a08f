"""Stretches in which API calls were not recorded, and the work that was launched in them.

To keep within its budget a recording leaves out API calls first (throttle.h). What the device did
is there all the same: that its launch is missing says nothing of the program.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sightline.formats.nvidia.cupti.file import CuptiFile

NO_CALLS = 1  # throttle.h: from this level on


def count_unlaunched(file: CuptiFile, ops: pl.DataFrame, host: pl.DataFrame) -> tuple[int, int]:
    """Work without a launch, although calls were recorded, and where none were.

    (0, 0) where a person wanted no calls. Times of both tables are CUPTI's, as those of windows.
    """
    if ops.is_empty() or not host.select(pl.col("layer").is_in(["runtime", "driver"]).any()).item():
        return 0, 0
    bare = ops.filter(pl.col("launch_id").is_null()).get_column("start_ns").to_numpy()
    begins, ends = _list_holes(file.frame("windows"))
    if not len(begins):
        return len(bare), 0
    # What was launched in a hole runs until work begins that was launched behind it.
    calls = host.select(launch_id="host_op_id", call_ns="start_ns")
    launched = ops.select("launch_id", "start_ns").drop_nulls()
    launched = launched.join(calls, on="launch_id", how="inner").sort("call_ns")
    called, started = (launched.get_column(c).to_numpy() for c in ("call_ns", "start_ns"))
    never = np.iinfo(np.int64).max
    first_from = np.minimum.accumulate(np.append(started, never)[::-1])[::-1]
    reach = first_from[np.searchsorted(called, ends)]
    hole = np.searchsorted(begins, bare, side="right") - 1
    # A long hole's work may outlast the beginning of the next one.
    furthest = np.maximum.accumulate(reach)
    is_inside = (hole >= 0) & (bare < furthest[np.maximum(hole, 0)])
    return int((~is_inside).sum()), int(is_inside.sum())


def _list_holes(windows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends, in order of time; holes that touch are several."""
    is_hole = (pl.col("level") >= NO_CALLS) | (pl.col("is_on") == 0)
    holes = windows.filter(is_hole & (pl.col("end") > pl.col("start"))).sort("start")
    return holes.get_column("start").to_numpy(), holes.get_column("end").to_numpy()
