"""Every rank holds the optimizer's whole state.

Symptom
    Each of several GPUs holds two or three times its parameters beside them.

Why it hurts
    Adam keeps two values for each parameter. Ranks that hold the same parameters need each only a
    share of that.

Evidence
    Blocks at the peak that the optimizer allocated, against the parameters' blocks
    (`sightline stats peak_blocks`), and the number of ranks that the recordings name.

Threshold
    State of at least the parameters' size, and over 15 % of the peak, on two ranks or more (ours:
    sharded over two ranks, Adam's state is as large as the parameters).

Fix
    ZeroRedundancyOptimizer, fully_shard (FSDP2) or DeepSpeed ZeRO from stage 1 on: each of N ranks
    then keeps one Nth.

False positives
    Ranks of a pipeline or a tensor-parallel group hold different parameters: their state is
    sharded with them.

References
    Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"
    (2020).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    grade_by_room,
    list_places,
    locate_device,
    select_device,
    write_share,
)

RULE = Rule("optimizer-state-not-sharded", "Optimizer state on every rank")
LEAST_PCT = 15.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the device with the highest peak."""
    ranks = _count_ranks(run)
    for peak in find_device_peaks(run).head(1).iter_rows(named=True):
        blocks = select_device(run.ask("peak_blocks"), peak)
        state = blocks.filter(pl.col("kind") == "optimizer state")
        held = sum_column(state, "bytes")
        parameters = sum_column(blocks.filter(pl.col("kind") == "parameter"), "bytes")
        whole = peak["allocated_bytes"]
        if ranks < 2 or held < max(parameters, 1) or 100 * held < LEAST_PCT * whole:
            return
        yield build_finding(
            RULE,
            f"Each of {ranks} ranks holds {format_bytes(held)} of optimizer state, "
            f"{write_share(held, whole)} of its peak.",
            Evidence(
                [f"parameters: {format_bytes(parameters)}", *list_places(state)],
                where=locate_device(peak),
            ),
            Advice(
                fix="shard it: fully_shard (FSDP2), ZeroRedundancyOptimizer, or DeepSpeed ZeRO "
                f"stage 1: each of {ranks} ranks keeps 1/{ranks}",
                verify="sightline stats peak_blocks AFTER: bytes of optimizer state",
                cause="data parallelism keeps a copy of the whole state on every rank",
                sources=("Rajbhandari et al. (2020): ZeRO",),
            ),
            severity=grade_by_room(peak),
            price=price_part(held, held - held // ranks, whole, "bytes"),
            method=f"all but 1/{ranks} of the state",
            confidence="medium",
        )


def _count_ranks(run: Run) -> int:
    recordings = run.table("recordings")
    named = recordings.get_column("world_size").max()
    return max(named if isinstance(named, int) else 1, recordings.get_column("rank").n_unique())
