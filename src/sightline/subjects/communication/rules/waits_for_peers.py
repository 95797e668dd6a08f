"""A collective waits for ranks that were not recorded.

Symptom
    One collective of many of the same size takes many times as long as the others do.

Why it hurts
    A collective begins to send when its last rank has come. In the recording of one rank that
    looks like communication, and no faster network or larger bucket shortens it.

Evidence
    Collectives of one kind, group and size on this rank: those that take ten times their median.
    There is no gain: what the other rank did meanwhile was not recorded.

Threshold
    Three and more alike, and what those take beyond their median is over 5 % of the window
    (TraceLens agent, 2026-08: exposed communication) without compute beside it.

Fix
    Record all ranks over the same time, and see which one comes last, and why. Where it is the
    first collective of the recording, ranks began to record, or to run, at different times: a
    barrier and warm-up steps before the recorded ones.

False positives
    A link that others use for as long, once.

References
    TraceLens NcclAnalyser (wait and skew); HolisticTraceAnalysis, potential stragglers.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.replay.gains import sum_windows
from sightline.timeline.communication import list_communication

RULE = Rule("waits-for-peers", "Waiting for ranks that were not recorded")
_MOST_PCT = 50.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not run.rows("collectives"):
        return
    comm = list_communication(run)
    waits = comm.filter(pl.col("meeting").is_null(), pl.col("last") > pl.col("start_ns"))
    if waits.is_empty():
        return
    cost = min(
        sum_column(waits.select(ns=pl.col("last") - pl.col("start_ns")), "ns"),
        sum_column(run.ask("comm_exposure"), "waiting_ns"),
    )
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return
    row = waits.sort(pl.col("end_ns") - pl.col("start_ns"), "device_op_id").row(-1, named=True)
    first = comm.filter(pl.col("rank") == row["rank"]).get_column("start_ns").min()
    is_first = row["start_ns"] == first
    yield build_finding(
        RULE,
        f"{format_pct(pct)} of the window is waiting for other ranks, in "
        f"{format_count(waits.height)} of {format_several(comm.height, 'collective')}.",
        Evidence(
            [
                f"{shorten_kernel_name(row['name'])} of {format_bytes(row['size'])} takes "
                f"{format_ns(row['end_ns'] - row['start_ns'])}, where most of the same size take "
                f"{format_ns(row['alike_ns'])}",
                "the other ranks were not recorded: who came late, and why, is not known",
            ],
            rows=waits.head(MAX_ROWS)
            .select("device_op_id", "rank", "device_id", "start_ns", "end_ns")
            .to_dicts(),
            where={"ranks": waits.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=(
                "it is the first collective here: let the ranks meet (a barrier, warm-up steps) "
                "before the steps that are recorded; else record"
                if is_first
                else "record"
            )
            + " all ranks over the same time, and look at the one that comes last:  sightline "
            "ranks RECORDINGS",
            verify="sightline stats comm_exposure AFTER: waiting_ns",
            cause="another rank comes later",
            sources=("TraceLens: NcclAnalyser",),
        ),
        price=(make_price(cost, "ns", pct), None),
        severity="info",
        confidence="medium",
        states_limit=pct >= _MOST_PCT,
    )
