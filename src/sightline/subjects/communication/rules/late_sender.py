"""MPI ranks wait in receives for messages that the other rank has not begun to send.

Symptom
    MPI_Recv, MPI_Wait or MPI_Waitall take long on some ranks, and begin before the send that they
    wait for.

Why it hurts
    The rank has nothing to do until the message comes, and a device that it feeds runs dry.

Evidence
    Sends and receives of MPI matched across ranks (Score-P, Nsight Systems, LTTng): from when the
    call that receives was entered until the send began (`sightline stats mpi_waits`), where that is
    longer than the ranks' clocks are uncertain. With a device it is the idle time in which the
    thread that launches its work so waited, and the gain is a bound: that time on the device that
    lost most. Without one it is the time of the rank that waits longest, and the gain is a bound,
    too: these waits, or all waits for the rank that is waited for most, averaged over all ranks,
    since with the same work in all no order of it takes less.

Threshold
    Over 5 % of the window, or of the rank's time (TraceLens agent, 2026-08: exposed communication).

Fix
    Send earlier on the rank that is waited for, or give it less to do before; post receives early
    (MPI_Irecv) and wait for them late, with work in between.

False positives
    A rank that is late because it waits itself: see what it waits for. A rank whose work is to wait
    for the others, such as a master that hands out tasks.

References
    Scalasca 2.5, src/scout/generator/MPI.pattern: Late Sender; POP Centre of Excellence, "POP
    Standard Metrics for Parallel Performance Analysis": load balance.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    abstain,
    build_finding,
    grade_severity,
    make_finding,
)
from sightline.diagnosis.gaps import Claim, claim_gaps
from sightline.timeline import causes
from sightline.timeline.mpi import count_ranks, measure_processes
from sightline.timeline.mpi_waits import LATE_SENDER, list_mpi_waits

RULE = Rule(
    "late-sender",
    "Ranks wait for late MPI sends",
    causes=(causes.LATE_SENDER,),
    explains_lateness=True,
)
_SOURCES = ("Scalasca 2.5, MPI.pattern: Late Sender",)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not run.rows("mpi_events"):
        return
    every = list_mpi_waits(run).filter(pl.col("pattern") == LATE_SENDER)
    waits = every.filter("is_comparable")
    if run.rows("device_ops"):
        claim = claim_gaps(run, RULE)
        if claim is not None:
            yield _report_gaps(run, waits, claim)
            return
    elif (found := _report_rank(run, waits)) is not None:
        yield found
        return
    apart = every.filter(~pl.col("is_comparable"))
    if _find_largest_pct(run, apart) >= NOTABLE_PCT:
        yield abstain(
            RULE,
            "ranks seem to wait for messages, but nothing compares the clocks of their recordings: "
            "eight barriers or allreduces of all ranks would allow it",
        )


def _report_gaps(run: Run, waits: pl.DataFrame, claim: Claim) -> Finding:
    # Of all waits those that the launching threads were in when the device was idle.
    mine = waits.filter(pl.col("host_op_id").is_in(claim.gaps.get_column("host_op_id").implode()))
    pairs = _sum_pairs(waits if mine.is_empty() else mine)
    evidence = Evidence(
        [*claim.evidence, *_describe_pairs(pairs)],
        rows=claim.rows,
        where=claim.where(RULE.name),
        calls=claim.calls,
    )
    return make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(claim.pct)} of the window because the rank that feeds it "
        f"waits for a message that rank {pairs.item(0, 'peer')} sends late.",
        Loss(claim.cost_ns, claim.worst_ns),
        evidence,
        _advise(pairs),
    )


def _report_rank(run: Run, waits: pl.DataFrame) -> Finding | None:
    """The finding of a run without devices, or None where no rank waits for much of its time."""
    spans = measure_processes(run)
    each = waits.group_by("process").agg(pl.col("wait_ns").sum()).join(spans, on="process")
    if each.is_empty():
        return None
    worst = each.sort("wait_ns", "process", descending=[True, False]).row(0, named=True)
    cost, span = worst["wait_ns"], max(worst["span_ns"], 1)
    if 100 * cost < NOTABLE_PCT * span:
        return None
    pairs = _sum_pairs(waits)
    mine = waits.filter(pl.col("process") == worst["process"])
    longest = mine.sort("wait_ns", "start_ns", descending=[True, False]).head(MAX_ROWS)
    rows = longest.select(
        "host_op_id", "peer_op_id", "process", "peer", "start_ns", "end_ns", "wait_ns"
    ).to_dicts()
    peer = _sum_pairs(mine).item(0, "peer")
    pct, advice = 100 * cost / span, _advise(pairs)
    # The same rank's lateness is waited out wherever ranks meet, not in receives alone.
    every = list_mpi_waits(run).filter("is_comparable", pl.col("peer") == peer)
    elsewhere = sum_column(every.filter(pl.col("pattern") != LATE_SENDER), "wait_ns")
    lost = max(sum_column(waits, "wait_ns"), sum_column(every, "wait_ns"))
    # With the same work in all no order of it is shorter than the average over the ranks.
    gain_ns = min(cost, lost // count_ranks(run))
    return build_finding(
        RULE,
        f"MPI rank {worst['process']} waits for {format_pct(pct)} of its time for messages that "
        f"other ranks have not begun to send, mostly rank {peer}.",
        Evidence(
            (
                *_describe_pairs(pairs),
                *(
                    [f"in other MPI calls, ranks wait {format_ns(elsewhere)} for rank {peer}"]
                    if elsewhere >= cost / 10
                    else []
                ),
            ),
            rows=rows,
            where={
                "ranks": each.filter(10 * pl.col("wait_ns") >= worst["wait_ns"])
                .get_column("process")
                .sort()
                .to_list(),
                "time_ranges": [[row["start_ns"], row["end_ns"]] for row in rows],
            },
        ),
        advice,
        price=(make_price(cost, "ns", pct), make_price(gain_ns, "ns")),
        severity=grade_severity(pct),
        confidence="high",
        method="bound: the waits averaged over all ranks",
    )


def _find_largest_pct(run: Run, waits: pl.DataFrame) -> float:
    """The waits of the rank that waits longest, % of its time."""
    spans = measure_processes(run)
    each = waits.group_by("process").agg(pl.col("wait_ns").sum()).join(spans, on="process")
    shares = each.select((100 * pl.col("wait_ns") / pl.col("span_ns").clip(1)).max()).item()
    return float(shares or 0.0)


def _sum_pairs(waits: pl.DataFrame) -> pl.DataFrame:
    """Who waited for whom, and how long: the longest first."""
    pairs = waits.group_by("process", "peer").agg(ns=pl.col("wait_ns").sum(), calls=pl.len())
    return pairs.sort("ns", "process", "peer", descending=[True, False, False])


def _describe_pairs(pairs: pl.DataFrame) -> list[str]:
    return [
        f"rank {process} waits {format_ns(ns)} for rank {peer}, in {format_several(calls, 'call')}"
        for process, peer, ns, calls in pairs.head(3).iter_rows()
    ]


def _advise(pairs: pl.DataFrame) -> Advice:
    peer = pairs.item(0, "peer")
    return Advice(
        fix=f"send earlier on rank {peer}, or give it less to do before it sends; post receives "
        "early (MPI_Irecv) and wait for them late, with work in between",
        verify="sightline stats mpi_waits AFTER: wait_ns of pattern late sender",
        cause=f"rank {peer} sends after the others have begun to receive",
        sources=_SOURCES,
    )
