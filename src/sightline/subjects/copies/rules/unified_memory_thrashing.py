"""Pages of unified memory move between host and device while nothing else runs, or again and again.

Symptom
    Migrations (UVM HtoD, UVM DtoH) beside kernels that take longer than usual; page faults on both
    sides of the same addresses.

Why it hurts
    A kernel that touches a page on the other side stops until it has moved, tens of µs a time.
    Where host and device take turns, or the device's memory is too small, the same pages keep
    moving.

Evidence
    Migrations as Nsight Systems records them, by address: repeated migrations of a page in the same
    direction are thrashing, and their cause (page fault, eviction) is recorded. Prefetches
    that the program asked for are left out. A kernel that faults runs on while it waits for its
    page, so the cost is all time of these migrations, beside kernels too, with up to 50 µs before
    each in which a kernel waits for the fault to be served (Zheng et al. 2016). The gain is the
    same time less what the link needs for the pages that have to come once: a bound from the
    timeline, since a kernel may have had other warps to run. Pages that come back as the host works
    through them, mostly for its own work's sake, are that work's (gpu-idle).

Threshold
    Migrations take over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    Prefetch before use (cudaMemPrefetchAsync), tell the driver who reads (cudaMemAdvise:
    ReadMostly, PreferredLocation, AccessedBy), or allocate on the device and copy (cudaMalloc,
    pinned host memory). Where the data is larger than the device's memory, work through it in
    parts.

False positives
    One pass over data larger than the device's memory moves every page once, and must.

References
    CUDA C++ Programming Guide, "Unified Memory Programming: Performance Tuning"; Nsight Systems
    User Guide, "CUDA Unified Memory transfer trace" (--cuda-um-gpu-page-faults); Zheng et al.,
    "Towards High Performance Paged Memory for GPUs", HPCA 2016.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import (
    format_bytes,
    format_count,
    format_note,
    format_ns,
    format_pct,
    format_several,
)
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    abstain,
    make_finding,
)
from sightline.replay.gains import sum_windows
from sightline.roofline.links import find_host_link
from sightline.timeline import causes
from sightline.timeline.copies import select_copies
from sightline.timeline.page_waits import HostPass, add_fault_waits, find_host_pass

RULE = Rule(
    "unified-memory-thrashing",
    "Unified memory thrashing",
    causes=(causes.MIGRATION,),
)


_DEVICE = ["rank", "device_id"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    # Few recordings have any: asked of the kinds first, of which there are few.
    some = match_names(run.table("device_ops", ["copy_kind"]), "^UVM", "copy_kind").any()
    moves = select_copies(run, RULE.causes) if some else None
    if moves is None:
        faults = run.table("page_faults").filter(pl.col("side") == "gpu")
        if faults.height:
            yield abstain(
                RULE,
                f"{format_several(faults.height, 'page fault')} of the GPU, but no migrations were "
                "recorded: nsys profile --trace=cuda",
            )
        return
    moves = moves.filter(pl.col("migration_cause").ne_missing("user prefetch"))
    reading = find_host_pass(run)
    if reading is not None and reading.is_own_work:
        # These come with the host's own work, which gpu-idle speaks of.
        moves = moves.filter(~pl.col("device_op_id").is_in(reading.moves.implode()))
        reading = None
    again = _list_repeated(moves)
    is_repeated = 2 * again.height > moves.height
    waited = add_fault_waits(run, moves)
    per_device = measure_cover(waited, _DEVICE)
    waiting = sum_column(per_device, "covered_ns") - sum_column(
        measure_cover(moves, _DEVICE), "covered_ns"
    )
    cost = sum_column(per_device, "covered_ns")
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return
    least = _measure_link(run, moves, again)
    worst = find_largest(per_device, "covered_ns")
    times = "again and again" if is_repeated else "on demand"
    yield make_finding(
        run,
        RULE,
        f"Pages of unified memory move {times}: {format_pct(pct)} of the window.",
        Loss(cost_ns=cost, bound_ns=max(worst - least, 0)),
        Evidence(
            [*_describe_waiting(waiting, reading, least), *_describe_moves(moves, again)],
            rows=moves.sort("start_ns")
            .head(MAX_ROWS)
            .select(
                "device_op_id",
                "rank",
                "device_id",
                "start_ns",
                "end_ns",
                "bytes",
                "address",
                "migration_cause",
            )
            .to_dicts(),
            where={"ranks": moves.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=choose_fix(
                run,
                "cudaMemPrefetchAsync before use, cudaMemAdvise for who reads, or cudaMalloc and "
                "copies from pinned memory",
                openmp="map arrays around the loop (target data), so that they are on the device "
                "before they are used",
                openacc="keep arrays on the device around the loop (acc data), so that they are "
                "there before they are used",
                kokkos="deep_copy into Views of the device's own memory space before use",
            ),
            verify="sightline stats um_sum AFTER: sizes in both directions of an address",
            cause="host and device take turns on the same pages"
            if again.height
            else "each page is fetched when it is first touched",
            sources=("CUDA C++ Programming Guide: Unified Memory Programming",),
        ),
        title=None if is_repeated else "Unified memory moves on demand",
    )


def _measure_link(run: Run, moves: pl.DataFrame, again: pl.DataFrame) -> int:
    """What the bytes that have to come once take on the link, on the device with most, ns.

    0 where the link is not known.
    """
    once = moves.join(again.select("device_op_id"), on="device_op_id", how="anti")
    sizes = once.group_by(_DEVICE).agg(pl.col("bytes").sum())
    devices = run.table("devices").iter_rows(named=True)
    rates = {(d["rank"], d["device_id"]): find_host_link(d) for d in devices}
    return max(
        (int(1e9 * size / rate) for *at, size in sizes.rows() if (rate := rates.get(tuple(at)))),
        default=0,
    )


def _describe_waiting(waiting: int, reading: HostPass | None, least: int) -> list[str]:
    lines = []
    if waiting:
        lines.append(f"{format_ns(waiting)} more in which kernels wait for the next page")
    if reading is not None:
        lines.append(
            f"the GPU is idle for {format_ns(reading.idle_ns)} more while the host reads pages "
            "back one by one: cudaMemPrefetchAsync to cudaCpuDeviceId brings them at once"
        )
    if least:
        lines.append(f"prefetched, at what the link reaches, their bytes take {format_ns(least)}")
    return lines


def _list_repeated(moves: pl.DataFrame) -> pl.DataFrame:
    """Moves of a page that had been moved the same way before."""
    way = ["rank", "device_id", "address", "copy_kind"]
    return (
        moves.drop_nulls("address")
        .sort("start_ns", "device_op_id")
        .filter(pl.int_range(pl.len()).over(way) > 0)
    )


def _describe_moves(moves: pl.DataFrame, again: pl.DataFrame) -> list[str]:
    """By direction, how much of it again, and why."""
    length = pl.col("end_ns") - pl.col("start_ns")
    ways = (
        moves.group_by("copy_kind")
        .agg(n=pl.len(), size=pl.col("bytes").sum(), ns=length.sum())
        .sort("copy_kind")
    )
    lines = [
        f"{format_count(n)} × {way}, {format_bytes(size)} in {format_ns(ns)}"
        for way, n, size, ns in ways.rows()
    ]
    if moves.get_column("address").null_count() == moves.height:
        return [*lines, "not known: which pages moved again (no addresses recorded)"]
    lines.append(
        format_note(
            again.height,
            f"of {format_several(moves.height, 'move')} are of pages that had moved the same way "
            "before",
        )
    )
    causes = (
        moves.drop_nulls("migration_cause")
        .group_by("migration_cause")
        .len()
        .sort("len", "migration_cause", descending=[True, False])
    )
    if causes.height:
        lines.append("; ".join(f"{format_count(n)} by {cause}" for cause, n in causes.rows()))
    return lines
