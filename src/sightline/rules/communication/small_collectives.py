"""Collectives of at most 1 MiB, one after another, with no compute beside them.

Symptom
    Many short collectives between kernels.

Why it hurts
    A collective has a latency that does not shrink with its size; small ones never reach the
    link's rate.

Evidence
    Exposed time of collectives whose recorded size is up to 1 MiB, after the last rank has come
    (`sightline stats comm_exposure`). Without recorded sizes nothing is small. The gain is a
    replay in which they take no time once all ranks have come.

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

from sightline.algebra.scalars import largest, total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.timeline.communication import members, no_transfer
from sightline.timeline.gains import window_ns
from sightline.units import format_bytes, format_count, format_ns, format_pct

RULE = Rule("small-collectives", "Collectives are too small to be worth their start")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not total(run.ask("breakdown"), "exposed_comm_ns"):
        return
    parts = run.ask("comm_exposure")
    cost = total(parts, "small_ns")
    pct = 100 * cost / window_ns(run)
    if pct < NOTABLE_PCT:
        return
    comm = members(run).filter(pl.col("part") == "small")
    ids = comm.get_column("device_op_id")
    size = comm.get_column("size").median()
    busy = total(comm.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    evidence = [f"{format_count(comm.height)} operations, {format_ns(busy)} in all"]
    if isinstance(size, int | float):
        evidence.append(f"median size {format_bytes(size)}")
    shown = ["device_op_id", "rank", "device_id", "start_ns", "end_ns"]
    yield make_finding(
        run,
        RULE,
        f"{format_pct(pct)} of the window is small collectives with no compute beside them.",
        Loss(
            cost_ns=cost,
            bound_ns=largest(parts, "small_ns"),
            change=lambda nodes: no_transfer(nodes, ids),
        ),
        Evidence(
            evidence,
            rows=comm.head(5).select(shown).to_dicts(),
            where={"ranks": comm.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="bucket or coalesce them (DDP bucket_cap_mb, ncclGroupStart and ncclGroupEnd)",
            verify="sightline stats comm_exposure AFTER: small_ns "
            f"(now {format_ns(largest(parts, 'small_ns'))} at most)",
            cause="each small collective pays its full latency",
            sources=("Li et al., PyTorch Distributed (2020)",),
        ),
        confidence="medium",
    )
