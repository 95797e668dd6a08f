"""What connects the ranks of a group: the links of one machine, or a network; and their peak."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu

# Most machines hold eight GPUs, and their links end there.
MACHINE_RANKS = 8
MACHINE, NETWORK = "machine", "network"


def find_link(run: Run) -> float | None:
    """What a GPU's links to the others of its machine carry each way, bytes/s."""
    devices = run.table("devices").select("name", "memory_bytes")
    for name, memory in devices.iter_rows():
        gpu = find_gpu(name, memory)
        if gpu is not None:
            return gpu.number("link_bandwidth")
    return None


def name_link(members: pl.Expr, group_size: pl.Expr) -> pl.Expr:
    """The slowest link between a group's ranks, as far as their numbers tell.

    Launchers number the ranks of a machine in a row: members are ranks as "0,1,8", or null.
    """
    machines = members.str.split(",").list.eval(pl.element().cast(pl.Int64) // MACHINE_RANKS)
    within = pl.when(members.is_not_null() & (members != "")).then(
        machines.list.min() == machines.list.max()
    )
    return (
        pl.when(within.fill_null(group_size <= MACHINE_RANKS))
        .then(pl.lit(MACHINE))
        .otherwise(pl.lit(NETWORK))
    )
