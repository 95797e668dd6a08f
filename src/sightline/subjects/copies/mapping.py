"""Whether regions of OpenMP or OpenACC map their arrays again and again: one finding says it."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.diagnosis.build import NOTABLE_PCT
from sightline.replay.gains import sum_windows
from sightline.timeline import causes
from sightline.timeline.world import OFFLOAD, read_world

# Copies between host and device, of more than 64 KiB.
COPIES = (causes.UPLOAD, causes.DOWNLOAD, causes.PAGEABLE)
_LEAST_GROUPS = 3  # of kernels between copies: fewer are not loops (ours)


def maps_again(run: Run) -> bool:
    """Whether copies for regions lie between groups of kernels, and take a notable time."""
    return run.once(_maps_again)


def _maps_again(run: Run) -> bool:
    if read_world(run).framework not in OFFLOAD or count_groups(run) < _LEAST_GROUPS:
        return False
    exposed = run.ask("copy_exposure").filter(pl.col("rule").is_in(COPIES))
    gaps = run.ask("idle_rules").filter(pl.col("rule") == causes.MAPPING)
    cost = sum_column(exposed, "total_ns") + sum_column(gaps, "duration_ns")
    return 100 * cost >= NOTABLE_PCT * sum_windows(run) and sum_column(exposed, "total_ns") > 0


def count_groups(run: Run) -> int:
    """How many groups of kernels have a copy before and behind them, on the device with most."""
    place, is_kernel = ["rank", "device_id"], pl.col("kind") == "kernel"
    ops = run.table("device_ops", [*place, "kind", "copy_kind", "start_ns"])
    used = ops.filter(is_kernel | pl.col("copy_kind").is_in(["HtoD", "DtoH"]))
    used = select_starting_in(used, run.ask("windows")).sort(*place, "start_ns")
    follows_copy = ~is_kernel.shift(1, fill_value=True).over(place)
    runs = used.select(*place, begins=is_kernel & follows_copy)
    return find_largest(runs.group_by(place).agg(groups=pl.col("begins").sum()), "groups")
