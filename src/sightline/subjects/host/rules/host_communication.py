"""The main thread waits for other ranks.

Symptom
    Gloo's or MPI's collectives take much of each step.

Why it hurts
    The step ends when the slowest rank has come and the data have moved.

Evidence
    The main thread's time in collectives, and in no operator while another thread of its process
    communicates. Whether it is the transfer or a rank that comes late, the recordings of all ranks
    together tell (`sightline ranks`). The gain is a bound: all of that time; where one rank comes
    late, what the others wait longer than that one, which waits for the transfer alone. What
    that rank alone loses time with is taken into the finding: it says why.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    Let DistributedDataParallel overlap buckets with the backward pass; fewer, larger collectives;
    NCCL where there are GPUs.

False positives
    A barrier that a program needs, as at its end.

References
    PyTorch DistributedDataParallel notes: gradients are reduced in buckets during backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns
from sightline.diagnosis.build import NOTABLE_PCT, Advice
from sightline.subjects.host.rules._shared import Share, list_names, report_share, take_part
from sightline.subjects.host.rules._there import find_there
from sightline.timeline.host_parts import COMMUNICATE, has_only_host, list_segments

RULE = Rule("host-communication", "Waiting for other ranks", finds_late_ranks=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or run.rows("mpi_events"):
        return  # of MPI's calls is known who waits for whom: late-sender speaks
    share = take_part(run, COMMUNICATE)
    if share.pct < NOTABLE_PCT:
        return
    ranks = share.segments.get_column("rank").n_unique()
    late = _find_late_rank(run)
    yield report_share(
        RULE,
        share,
        _say(run, share, late),
        [*late.lines, *list_names(share.segments)] if late else list_names(share.segments),
        Advice(
            fix="find the late rank, and why it is late, in the recordings of all ranks; then "
            "overlap the collectives with the backward pass, as DistributedDataParallel does",
            verify="sightline stats host_breakdown AFTER: window_pct of communication",
            sources=("TraceLens: exposed communication above 5 %",),
        ),
        gain_ns=late.excess_ns if late else None,
        confidence="high" if ranks > 1 else "medium",
        late_ranks=[late.rank] if late else [],
    )


def _say(run: Run, share: Share, late: _Late | None) -> str:
    if late is None:
        return f"Main threads spend {share.there.share} of their time waiting in collectives."
    others = share.segments.filter(pl.col("rank") != late.rank)
    there = find_there(run, others.group_by("rank").agg(ns=pl.col("own_ns").sum()))
    if len(there.ranks) == 1:
        who, whose = f"rank {there.ranks[0]} spends", "its"
    else:
        who, whose = "the others spend", "their"
    return (
        f"Rank {late.rank} comes late: {who} {there.share} of {whose} time waiting in collectives."
    )


class _Late(NamedTuple):
    rank: int
    lines: list[str]
    excess_ns: int  # how much longer the one that waits longest waits


def _find_late_rank(run: Run) -> _Late | None:
    """The rank that waits much less than the others, and what it does instead; None without one."""
    parts = list_segments(run).group_by("rank", "part").agg(pl.col("own_ns").sum())
    waits = parts.filter(pl.col("part") == COMMUNICATE).sort("own_ns", "rank")
    if waits.height < 2:
        return None
    rank, least = waits.row(0)[0], waits.item(0, "own_ns")
    # Half of what the others wait at least: where all wait alike, it is the transfer.
    if 2 * least > waits.item(1, "own_ns"):
        return None
    others = parts.filter(pl.col("rank") != rank).group_by("part").agg(pl.col("own_ns").median())
    mine = parts.filter((pl.col("rank") == rank) & (pl.col("part") != COMMUNICATE))
    more = mine.join(others, on="part", how="left", suffix="_of_others").with_columns(
        more=pl.col("own_ns") - pl.col("own_ns_of_others").fill_null(0)
    )
    part, ns = more.sort("more", "part", descending=[True, False]).select("part", "more").row(0)
    what = list_segments(run).filter((pl.col("rank") == rank) & (pl.col("part") == part))
    text = f"rank {rank} waits least ({format_ns(least)}): the others wait for it"
    line = f"it spends {format_ns(ns)} more in {part}"
    named = what.filter(pl.col("name").is_not_null())
    largest = find_largest(named.group_by("name").agg(pl.col("own_ns").sum()), "own_ns")
    # Half of it or more, or it explains nothing.
    if 2 * largest >= ns:
        line += f": {list_names(what, 1)[0]}"
    return _Late(rank, [text, line], find_largest(waits, "own_ns") - least)
