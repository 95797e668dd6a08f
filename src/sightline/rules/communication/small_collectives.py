"""Collectives of at most 1 MiB, one after another, with no compute beside them.

Symptom
    Many short collectives between kernels.

Why it hurts
    A collective has a latency that does not shrink with its size; small ones never reach the
    link's rate.

Evidence
    Exposed time of collectives whose recorded size is up to 1 MiB, after the last rank has arrived
    (`sightline stats comm_exposure`). Without recorded sizes nothing is small. The gain is a
    replay in which they take no time once all ranks have arrived, and those that a thread launches
    one directly after another are one call.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08); small is up to 1 MiB (PyTorch DDP's first
    bucket; later ones are 25 MiB).

Fix
    Bucket gradients (DDP bucket_cap_mb), coalesce (ncclGroupStart and ncclGroupEnd), fuse metrics
    into one all-reduce per n steps.

False positives
    Tensor parallelism at small batch, where each small all-reduce is needed at once: there only
    faster small collectives (LL128, symmetric memory, one-shot kernels) help.

References
    Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (2020).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.advice import choose_fix
from sightline.rules.communication._parts import find_exposed_part
from sightline.timeline.communication import remove_transfer
from sightline.timeline.replay import is_op

RULE = Rule("small-collectives", "Many small collectives")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_part(
        run,
        RULE,
        "small",
        "exposed small collectives",
        _send_together,
        cause="each small collective pays its full latency",
        fix=choose_fix(
            run,
            "send more at once: larger buckets (DDP bucket_cap_mb), or several tensors in one call "
            "(ncclGroupStart and ncclGroupEnd)",
            jax="let XLA combine them: --xla_gpu_all_reduce_combine_threshold_bytes",
            native="send more at once: several tensors in one call (ncclGroupStart and "
            "ncclGroupEnd)",
        ),
        source="Li et al., PyTorch Distributed (2020)",
    )


def _send_together(nodes: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The nodes without these transfers, and one call for those launched directly in a row."""
    mine = is_op(nodes) & nodes.get_column("ref_id").is_in(ids.implode())
    calls = nodes.get_column("launch").filter(mine).drop_nulls().implode()
    # Of calls that launch several things, a graph among them, nothing is known to be in a row.
    alone = nodes.get_column("launch").filter(is_op(nodes)).drop_nulls()
    alone = alone.filter(alone.is_unique()).implode()
    joins = pl.all_horizontal(
        pl.col(at).is_in(calls) & pl.col(at).is_in(alone) for at in ("node", "prev")
    )
    joins = (pl.col("kind") == "call") & joins.fill_null(value=False)
    return remove_transfer(nodes, ids).with_columns(
        end_ns=pl.when(joins).then("start_ns").otherwise("end_ns"),
        prev_lag_ns=pl.when(joins).then(0).otherwise("prev_lag_ns"),
    )
