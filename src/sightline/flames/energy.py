"""Stacks of joules: the measured energy of each device below what launched its operations."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.flames.stacks import Stacks, stack_paths
from sightline.flames.timeline import stack_ops
from sightline.timeline.energy import Meter, list_meters
from sightline.timeline.energy_shares import Shares, share_energy

WEIGHT = "energy_uj"
_NOTHING = "[nothing ran]"


def stack_energy(run: Run) -> list[Stacks]:
    """Weight energy_uj of all that the meters cover, in microjoules; none without a meter.

    What was used while nothing ran is a stack of its own on each device. The sum is what was
    measured, but for half a microjoule an operation.
    """
    try:
        meters = list_meters(run)
    except MissingDataError:
        return []
    ops = run.table(
        "device_ops", ["rank", "device_id", "stream_id", "start_ns", "end_ns", "launch_id", "name"]
    )
    shares = [
        (meter, share_energy(meter, ops.filter(rank=meter.rank, device_id=meter.device_id)))
        for meter in meters
    ]
    shared = pl.concat([one.ops for _, one in shares])
    micro = (pl.col("energy_j") * 1e6).round().cast(pl.Int64)
    idle = stack_paths([_stack_idle(meter, one) for meter, one in shares])
    if shared.is_empty():
        return [idle]
    return [stack_ops(run, shared.with_columns(micro.alias(WEIGHT)), [WEIGHT]), idle]


def _stack_idle(meter: Meter, shares: Shares) -> tuple[list[tuple[str, str]], str, dict[str, int]]:
    path = [
        ("run", f"rank {meter.rank}"),
        ("device", f"GPU {meter.device_id}"),
        ("note", _NOTHING),
    ]
    return path, "exact", {WEIGHT: round(shares.idle_j * 1e6)}
