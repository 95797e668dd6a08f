"""Ranks of a group asked for different collectives at the same place of their order.

Symptom
    A hang, wrong results, or a crash in NCCL: each rank waits for partners that do something else.

Why it hurts
    NCCL matches calls by their order alone: the ranks exchange bytes that are not meant for each
    other, or wait for ever.

Evidence
    PyTorch's flight recorder of each rank: the same number in a process group with another
    operation, size or type (`sightline stats collective_mismatches`). Sizes of an all-to-all, a
    gather and a scatter may differ.

Threshold
    One collective that differs.

Fix
    The lines of both programs are named: branches that depend on the rank or on data must lead to
    the same collectives in the same order.

False positives
    Dumps of different jobs given together.

References
    PyTorch tutorial "Flight Recorder for Debugging Stuck Jobs"; NCCL user guide, "Group calls".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.communication.rules._late import name_group, name_ranks

RULE = Rule("collective-mismatch", "Ranks call different collectives", over_time=True)
_SHOWN = 16


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the first collective of the first group that differs."""
    if not run.rows("flight_records"):
        return
    rows = run.ask("collective_mismatches")
    if rows.is_empty():
        return
    first = rows.row(0, named=True)
    same = (pl.col("group").eq_missing(first["group"])) & (pl.col("sequence") == first["sequence"])
    met = rows.filter(same)
    odd = met.filter(~pl.col("is_usual"))
    ranks = odd.get_column("rank").unique().sort().to_list()
    usual = met.filter("is_usual").get_column("rank").unique().sort().to_list()
    differ = rows.select("group", "sequence").n_unique()
    yield build_finding(
        RULE,
        f"At number {first['sequence']} of {name_group(first)} "
        f"{name_ranks(ranks)} called {_say(odd)}, where {name_ranks(usual)} called "
        f"{_say(met.filter('is_usual'))}.",
        Evidence(
            (f"{format_several(differ, 'collective')} for which ranks asked different things",),
            rows=met.head(_SHOWN).to_dicts(),
            where={"ranks": ranks, "source": odd.item(0, "place")},
        ),
        Advice(
            fix="lead all ranks through the same collectives in the same order at these two lines",
            verify="sightline stats collective_mismatches AFTER: no rows",
            cause="a branch that depends on the rank or on data",
            sources=("PyTorch tutorial: Flight Recorder for Debugging Stuck Jobs",),
        ),
        severity="critical",
        confidence="high",
        method="records of the ranks compared: no time is measured",
        states_limit=True,
    )


def _say(rows: pl.DataFrame) -> str:
    row = rows.row(0, named=True)
    return str(row["asked"]) + (f" at {row['place']}" if row["place"] else "")
