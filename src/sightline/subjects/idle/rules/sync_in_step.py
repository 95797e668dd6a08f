"""The host synchronizes with the device inside the step, and the device runs dry.

Symptom
    After each synchronizing call the device runs dry until the host has launched again.

Why it hurts
    Launches are asynchronous so that the host can prepare the next operations while the device
    works. A wait throws that lead away; the gap behind it lasts until new work has arrived.

Evidence
    Gaps at whose start the launching thread was inside a call that returns only when the device,
    a stream or an event is done. A call made when nothing runs has nothing to wait for and is no
    evidence, unless it takes over 40 µs (the longest of 155 such calls in 16 real recordings took
    32 µs: timeline/idle_host.py). The gain is a replay in which these calls do not wait, and the
    small copies that they read are not made, nor the operators that do nothing else.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08, its threshold for exposed copies; idle is
    the same loss).

Fix
    Remove .item(), .cpu(), .numpy(), print(loss), `if tensor:`, torch.cuda.synchronize() from the
    step; collect values on the device and read them once per many steps, with non_blocking=True.

False positives
    A wait that the algorithm needs (a data-dependent shape, sampling the next token); a benchmark
    that synchronizes to measure.

References
    PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization";
    CUDA Runtime API, "API synchronization behavior".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import Texts, find_rows
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.diagnosis.gaps import LOOK_PCT, Claim, claim_gaps
from sightline.diagnosis.ranking import REST
from sightline.replay.replay import (
    is_finish,
    order_behind_waits,
    remove_ops,
    remove_sleeps,
    remove_waits,
    shorten_thinking,
)
from sightline.replay.waits import THREAD
from sightline.timeline import causes
from sightline.timeline.api_calls import allocates
from sightline.timeline.copies import SMALL_BYTES
from sightline.timeline.host_ranges import find_host_ancestor, measure_in_ranges

RULE = Rule(
    "sync-in-step",
    "Synchronization inside the step",
    causes=(causes.SYNCHRONISATION,),
    explains_lateness=True,
)

_TIMES = ("start_ns", "end_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE, least_pct=LOOK_PCT, with_behind=True)
    if mine is None:
        return
    read_back = _list_read_back(run)
    readers = _list_readers(run, read_back)

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        waits = is_finish(nodes) & ~allocates(Texts(nodes.get_column("name")))
        ordered = order_behind_waits(nodes, waits)
        bare = remove_sleeps(remove_waits(remove_ops(ordered, read_back), waits))
        return shorten_thinking(bare, measure_in_ranges(nodes, readers, THREAD))

    callers = _describe_callers(run, mine.gaps)
    found = make_finding(
        run,
        RULE,
        _summarize(mine),
        Loss(mine.cost_ns, mine.worst_ns)
        if mine.is_needed
        else Loss(mine.cost_ns, mine.worst_ns, without, behind_ns=mine.behind_ns),
        Evidence(
            [*mine.evidence[:1], *callers],
            rows=mine.rows,
            # Most of the gaps is what the host does next: who names that is nearer to the cause.
            where={**mine.where("host_sync"), **({REST: True} if mine.is_mostly_rest else {})},
            calls=mine.calls,
        ),
        Advice(
            fix=choose_fix(
                run,
                "do not wait for the GPU in the loop: copy values to the host one iteration "
                "later, and test them on the device",
                training="take .item(), .cpu(), print(loss) and synchronize() out of the step; "
                "copy values to the host one step later, with non_blocking=True",
                pytorch="take .item(), .cpu() and synchronize() out of the step; copy values to "
                "the host one step later, with non_blocking=True",
                serving="let the scheduler run ahead of the GPU (asynchronous scheduling, overlap "
                "scheduling), so that sampled tokens are read one step later",
                julia="take CUDA.@sync, Array(x) and scalar indexing out of the loop; reduce on "
                "the GPU and read the result less often",
                kokkos="take Kokkos::fence and reductions into host scalars out of the loop: "
                "reduce into a View, and read it less often",
                openacc="let regions run one after another (async, wait at the end) instead of "
                "waiting after each one",
                scripted="take .get(), float(x) and synchronize() out of the loop, and test values "
                "on the device",
                jax="take block_until_ready(), float(x) and np.asarray(x) out of the step: JAX "
                "runs ahead by itself",
                openmp="let target regions run one after another (nowait, depend) instead of "
                "waiting after each one",
                native="take cudaDeviceSynchronize and blocking copies out of the loop; order "
                "streams by events (cudaStreamWaitEvent), and test values on the device",
            ),
            # The rest of its gaps is another cause's there.
            verify="sightline stats breakdown AFTER: idle_ns"
            if mine.is_mostly_rest
            else "sightline stats idle AFTER: total_ns of host_sync",
            cause="the step copies values to the host or synchronizes with the GPU"
            if read_back.len()
            else "the step synchronizes with the GPU",
            sources=("PyTorch Performance Tuning Guide", "CUDA Runtime API"),
        ),
    )
    yield from keep_notable(run, found)


def _summarize(mine: Claim) -> str:
    """Of a share that is nothing by itself, the time is said: most of the cost lies behind it."""
    if mine.pct < LOOK_PCT:
        return (
            f"The host waits for the GPU, which then runs dry for {format_ns(mine.cost_ns)} until "
            "new work arrives."
        )
    return (
        f"The GPU runs dry for {format_pct(mine.pct)} of the window after the host synchronized "
        "with it."
    )


def _list_read_back(run: Run) -> pl.Series:
    """The small copies to the host: values, not results."""
    return (
        run.table("device_ops", ["device_op_id", "copy_kind", "bytes"])
        .filter((pl.col("copy_kind") == "DtoH") & (pl.col("bytes") <= SMALL_BYTES))
        .get_column("device_op_id")
    )


def _list_readers(run: Run, read_back: pl.Series) -> pl.DataFrame:
    """The outermost operators that launch nothing but such reads: they go with them."""
    host = run.table("host_ops", ["host_op_id", "parent_id", *THREAD, "layer", *_TIMES])
    operators = host.filter(pl.col("layer") == "op")
    inner = operators.join(
        operators.select(parent_id="host_op_id"), on="parent_id", how="semi"
    ).get_column("host_op_id")
    outer = operators.filter(~pl.col("host_op_id").is_in(inner.implode()))
    launched = run.table("device_ops", ["device_op_id", "launch_id"]).drop_nulls("launch_id")
    within = find_host_ancestor(run, launched.get_column("launch_id"), outer["host_op_id"])
    only_read = (
        launched.select(
            host_op_id=within, is_read=pl.col("device_op_id").is_in(read_back.implode())
        )
        .group_by("host_op_id")
        .agg(pl.col("is_read").all())
        .filter("is_read")
    )
    return outer.join(only_read, on="host_op_id", how="semi").select(*THREAD, *_TIMES)


def _describe_callers(run: Run, gaps: pl.DataFrame) -> list[str]:
    """The calls whose waits the gaps follow, longest first, and the operators that make them."""
    waits = gaps.group_by(host_op_id="host_op_id").agg(ns=pl.col("duration_ns").sum()).drop_nulls()
    host = run.table("host_ops", ["host_op_id", "parent_id", "name"])
    ids, names = host.get_column("host_op_id"), host.get_column("name")
    call = find_rows(ids, waits.get_column("host_op_id"))
    outer = find_rows(ids, host.get_column("parent_id").gather(call))
    around = (
        waits.select("ns", name=names.gather(call), inside=names.gather(outer))
        .filter(call.is_not_null())
        # Ranges that are numbered ("step 17") are one caller.
        .with_columns(alike=pl.col("inside").cast(pl.String).str.replace_all(r"\d+", "*"))
        .group_by("name", "alike")
        .agg(
            n=pl.len(),
            ns=pl.col("ns").sum(),
            inside=pl.when(pl.col("inside").n_unique() == 1)
            .then(pl.col("inside").first().cast(pl.String))
            .otherwise(pl.col("alike").first()),
        )
        .sort("ns", "n", "name", "inside", descending=[True, True, False, False])
    )
    return [
        f"{format_count(row['n'])} × {row['name']}"
        + (f"  in  {row['inside']}" if row["inside"] else "")
        for row in around.head(3).iter_rows(named=True)
    ]
