"""The main thread loads the next batch itself, or waits for it.

Symptom
    Each step begins with a long stretch inside the DataLoader, and no operator runs meanwhile.

Why it hurts
    The program runs at the speed of reading, decoding and collating; a faster model changes
    nothing.

Evidence
    The main thread's time inside ranges called DataLoader, with the functions that take most of it
    where Python functions were recorded, or the lines of the loader in which samples of stacks
    fell. PyTorch names the iterator: with no workers it is
    _SingleProcessDataLoaderIter, and the main thread does the work itself. The gain replays a step
    in which the CPUs that PyTorch's threads leave free load the next batch meanwhile, where it is
    known how many there are (`sightline stats step_usage`); else it is a bound: all of that time.

Threshold
    Over 10 % of the window (XProf: a step is input-bound where infeed is at or above 10 %).

Fix
    DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...); do less in
    __getitem__ (decode once, store what is ready).

False positives
    Where operators use all cores, workers take them away from the model: then the gain is less.
    A first batch while workers start; choose the window with --window steady.

References
    XProf overview page (openxla/xprof); PyTorch Performance Tuning Guide, "Enable asynchronous
    data loading and augmentation".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._sampled import name_loading
from sightline.subjects.host.rules._shared import Share, list_names, report_share, take_part
from sightline.timeline.host_parts import LOAD, has_only_host, list_windows
from sightline.timeline.host_ranges import LOADING
from sightline.timeline.step_usage import sum_usage

RULE = Rule("host-loading", "Loading data on the main thread", explains_lateness=True)

_WORKERS = 4
LOADING_PCT = 10.0
_ALONE = r"_SingleProcessDataLoaderIter"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    share = take_part(run, LOAD)
    if share.pct < LOADING_PCT:
        return
    host = run.table("host_ops")
    is_alone = bool(match_names(host, _ALONE).any())
    # The iterator's own time is what is in no function of it that was recorded.
    inside = share.segments.filter(~match_names(share.segments, LOADING))
    loads = host.filter(match_names(host, LOADING) & (host.get_column("layer") != "op"))
    within = loads.get_column("host_op_id").implode()
    outer = loads.filter(~pl.col("parent_id").is_in(within).fill_null(value=False))
    # The call that finds that there is no batch left does nothing; the others do, or none of them.
    active = outer.filter(pl.col("host_op_id").is_in(host.get_column("parent_id").implode()))
    batches = outer if active.is_empty() else active
    longest = find_largest(batches.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    count = format_several(batches.height, "batch", "batches")
    what = (
        "loading batches itself (the DataLoader has no workers)"
        if is_alone
        else "waiting for batches of the DataLoader"
    )
    yield report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time {what}.",
        [
            f"{count}, the longest {format_ns(longest)}",
            *name_loading(run),
            *list_names(inside),
        ],
        Advice(
            fix=f"DataLoader(num_workers={_choose_workers(run)}, persistent_workers=True), as many "
            "as cores are free"
            if is_alone
            else "raise num_workers and prefetch_factor, or do less in __getitem__",
            verify="sightline stats host_breakdown AFTER: window_pct of loading data",
            sources=("XProf: input-bound from 10 % of a step on",),
        ),
        gain_ns=_replay_with_workers(run, share) if is_alone else None,
    )


def _choose_workers(run: Run) -> int:
    """As many as usual, and no more than the program has CPUs: PyTorch warns of those."""
    known = sum_usage(run).get_column("usable_cpus").drop_nulls()
    return _WORKERS if known.is_empty() else max(1, min(_WORKERS, round(known.min())))  # type: ignore[arg-type]


def _replay_with_workers(run: Run, share: Share) -> int | None:
    """What free CPUs gain that load while PyTorch's threads compute; None where they are unknown.

    A load that sleeps needs no CPU. What is left of it takes the free CPUs as long as it took one.
    """
    rows = sum_usage(run).drop_nulls(["usable_cpus", "torch_threads"])
    if rows.is_empty():
        return None
    row = rows.sort("asleep_pct").row(0, named=True)
    free = max(int(row["usable_cpus"] - row["torch_threads"]), 0)
    windows = list_windows(run).select(ns=pl.col("end_ns") - pl.col("start_ns"))
    window = find_largest(windows, "ns")
    slept = min(int(row["asleep_pct"] / 100 * window), share.worst_ns)
    if not free:
        return slept
    rest = window - share.worst_ns
    return window - max(rest, (share.worst_ns - slept) // free)
