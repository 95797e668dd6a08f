"""Collectives of at most 1 MiB, one after another, with no compute beside them.

Symptom
    Many short collectives between kernels.

Why it hurts
    A collective has a latency that does not shrink with its size; small ones never reach the
    link's rate.

Evidence
    Exposed time of collectives whose recorded size is up to 1 MiB, after the last rank has arrived
    (`sightline stats comm_exposure`). Without recorded sizes nothing is small. The gain is a
    replay in which those that a thread launches one directly after another are one call, and what
    is sent takes as long as its bytes do, and one latency for each call; where all have one size,
    so that nothing tells what a byte takes, a call takes as long as the longest of its parts did,
    and a collective with no other beside it no time.

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

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.replay.replay import is_op, scale_ops, select_ops
from sightline.subjects.communication.rules._parts import find_exposed_part
from sightline.timeline.communication import fit_transfers, list_communication

RULE = Rule("small-collectives", "Many small collectives")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_part(
        run,
        RULE,
        "small",
        "exposed small collectives",
        lambda nodes, ids: _send_together(run, nodes, ids),
        cause="each small collective pays its full latency",
        fix=choose_fix(
            run,
            "send more at once: several tensors in one call",
            training="send more at once: larger buckets (DDP bucket_cap_mb), or several tensors in "
            "one call (ncclGroupStart and ncclGroupEnd)",
            serving="send less often: larger batches, or a custom all-reduce for small messages, "
            "which inference servers have",
            jax="let XLA combine them: --xla_gpu_all_reduce_combine_threshold_bytes",
            native="send more at once: several tensors in one call (ncclGroupStart and "
            "ncclGroupEnd)",
        ),
        source="Li et al., PyTorch Distributed (2020)",
    )


def _send_together(run: Run, nodes: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The nodes with one call for those launched directly in a row, which sends all their bytes."""
    mine = select_ops(nodes, ids)
    calls = nodes.get_column("launch").filter(mine).drop_nulls().implode()
    # Of calls that launch several things, a graph among them, nothing is known to be in a row.
    alone = nodes.get_column("launch").filter(is_op(nodes)).drop_nulls()
    alone = alone.filter(alone.is_unique()).implode()
    joins = pl.all_horizontal(
        pl.col(at).is_in(calls) & pl.col(at).is_in(alone) for at in ("node", "prev")
    )
    joins = (pl.col("kind") == "call") & joins.fill_null(value=False)
    heads = _find_first_calls(nodes.filter(joins).select("node", "prev"))
    sent = nodes.filter(mine).select("ref_id", "launch")
    shorter = scale_ops(nodes, _measure_together(run, sent, heads))
    return shorter.with_columns(
        end_ns=pl.when(joins).then("start_ns").otherwise("end_ns"),
        prev_lag_ns=pl.when(joins).then(0).otherwise("prev_lag_ns"),
    )


def _find_first_calls(joined: pl.DataFrame) -> pl.DataFrame:
    """Of calls that each follow another (`node`, `prev`): the first of their row, as `head`."""
    heads = joined.rename({"prev": "head"})
    while True:
        further = heads.join(
            heads.rename({"node": "head", "head": "before"}),
            on="head",
            how="left",
            maintain_order="left",
        )
        if not further.get_column("before").is_not_null().any():
            return heads
        heads = further.select("node", head=pl.coalesce("before", "head"))


def _measure_together(run: Run, sent: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """What is left of each transfer, as a factor of its length: `ref_id` and `factor`.

    `sent` has the operations (`ref_id`) and their calls (`launch`), `heads` the first call of those
    in a row.
    """
    comm = list_communication(run)
    took = pl.col("end_ns") - pl.max_horizontal("start_ns", "last")
    rows = (
        sent.join(heads, left_on="launch", right_on="node", how="left")
        .with_columns(call=pl.coalesce("head", "launch"))
        .join(comm.with_columns(took=took), left_on="ref_id", right_on="device_op_id")
        .join(fit_transfers(comm), on=["op", "group", "group_size"], how="left", nulls_equal=True)
        .sort("ref_id")
    )
    known = pl.col("ns_per_byte").is_not_null()
    in_row = pl.col("call").is_not_null() & (pl.len().over("call") > 1)
    is_last = pl.int_range(pl.len()).over("call") == pl.len().over("call") - 1
    longest = pl.when(in_row & is_last).then(pl.col("took").max().over("call")).otherwise(0)
    by_size = pl.col("size") * pl.col("ns_per_byte") + pl.when(in_row & is_last).then(
        "latency_ns"
    ).otherwise(0)
    # One of a row may take longer than before, as it sends for all; alone, none does.
    left = pl.when(known).then(by_size).otherwise(longest) / pl.col("took").clip(1)
    return rows.select("ref_id", factor=pl.when(in_row).then(left).otherwise(left.clip(0, 1)))
