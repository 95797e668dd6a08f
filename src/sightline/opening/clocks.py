"""Recordings of several hosts on one clock, where ends of collectives show it, or packets."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from sightline.core.model.clock import Clock
from sightline.core.model.declare import Quality
from sightline.core.model.run import Run
from sightline.core.model.store import Part
from sightline.core.units import format_ns
from sightline.timeline.clocks import (
    LATENCY_NS,
    LEAST_ANCHORS,
    PACKETS,
    Fit,
    fit_by_packets,
    fit_clocks,
    list_anchors,
    share_a_clock,
)
from sightline.timeline.collectives import describe_collectives
from sightline.timeline.communication_names import PATTERN
from sightline.timeline.mpi import list_mpi_anchors

_FACTS = ("start_ns", "end_ns")


def align_clocks(run: Run) -> Run:
    """The run with each rank's times on the clock of the lowest rank that it can be compared with.

    Nothing is moved where all clocks agree within their uncertainty and the fabric's latency, where
    all ranks were recorded by one host's monotonic clock, or
    where no clocks make sense of how the collectives were matched.
    """
    if len({part.rank for part in run.parts}) < 2 or share_a_clock(run):
        return run
    anchors = _list_anchors(run)
    apart = anchors.group_by("meeting").agg(ns=pl.col("end_ns").max() - pl.col("end_ns").min())
    if apart.height < LEAST_ANCHORS:
        fit = fit_by_packets(run)
    else:
        is_together = apart.select((pl.col("ns") <= LATENCY_NS).all()).item()
        fit = None if is_together else fit_clocks(anchors)
    if fit is None or not fit.is_apart():
        return run
    if fit.is_contradictory:
        return _note(run, Quality("clocks_contradict", "warning", _say_contradiction(fit)))
    return move_clocks(run, fit)


def _list_anchors(run: Run) -> pl.DataFrame:
    """Members of collectives: of the devices, else of MPI where those are too few."""
    collectives = run.table("collectives")
    ops = (
        run.scan("device_ops")
        .filter(pl.col("kind") == "kernel", _may_be_collective(collectives))
        .select("device_op_id", "rank", "device_id", "kind", "name", "start_ns", "end_ns")
        .collect()
    )
    anchors = list_anchors(ops, describe_collectives(collectives))
    if anchors.get_column("meeting").n_unique() >= LEAST_ANCHORS or not run.rows("mpi_events"):
        return anchors
    return list_mpi_anchors(run)


def move_clocks(run: Run, fit: Fit) -> Run:
    """The run with each rank's times moved by its clock, which may be known by other ranks."""
    rows = {row["rank"]: row for row in fit.clocks.rows(named=True)}
    parts = [_move(part, rows[part.rank]) if part.rank in rows else part for part in run.parts]
    return _note(Run(parts), Quality("clocks_aligned", "info", _say_moved(fit)))


def _may_be_collective(collectives: pl.DataFrame) -> pl.Expr:
    if collectives.is_empty():
        return pl.col("name").str.contains(PATTERN)
    return pl.col("device_op_id").is_in(collectives.get_column("device_op_id").implode())


def _move(part: Part, row: dict[str, int]) -> Part:
    """The recording with its clock, and what is known of it as a whole on that clock."""
    clock = Clock(row["shift_ns"], row["drift"], row["at_ns"])
    facts = {**part.facts, "clock_uncertainty_ns": row["uncertainty_ns"]}
    facts["clock_offset_ns"] = (facts.get("clock_offset_ns") or 0) + clock.shift_ns
    for name in _FACTS:
        if facts.get(name) is not None:
            facts[name] += clock.shift_ns
    return replace(part, facts=facts, clock=clock)


def _note(run: Run, note: Quality) -> Run:
    """The run with one more remark on its first recording."""
    first, *others = run.parts
    quality = [*first.facts.get("quality", ()), vars(note)]
    return Run([replace(first, facts={**first.facts, "quality": quality}), *others])


def _say_moved(fit: Fit) -> str:
    worst = int(fit.clocks.get_column("uncertainty_ns").max() or 0)  # type: ignore[arg-type]
    apart = fit.clocks.get_column("component").n_unique()
    by_packets = fit.method == PACKETS
    by = "TCP packets between hosts" if by_packets else "collectives"
    said = (
        f"the ranks' clocks are up to {format_ns(fit.find_shift())} apart: moved onto one by "
        f"{'' if by_packets else 'the ends of '}{fit.anchors:,} {by}, ± {format_ns(worst)} "
        "(sightline stats clocks)"
    )
    if apart > 1:
        common = "packets between them" if by_packets else "collective in common"
        said += f"; {apart} sets of ranks have no {common} and cannot be compared"
    return said


def _say_contradiction(fit: Fit) -> str:
    if fit.method == PACKETS:
        return (
            "the hosts' clocks could not be compared: no constant drift lets all of "
            f"{fit.impossible:.0%} of their TCP packets arrive after they were sent; a clock may "
            "have been set meanwhile"
        )
    return (
        f"the ranks' clocks could not be compared: whatever they are, in {fit.impossible:.0%} of "
        "the collectives as matched one rank ended before another began, so the recordings may "
        "begin at different operations"
    )
