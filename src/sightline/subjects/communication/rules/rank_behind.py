"""Ranks of a communicator gave no answer, or have launched fewer collectives than the others.

Symptom
    The job stands still or crawls, and NCCL's RAS (`ncclras`) reports INCOMPLETE or MISMATCH.

Why it hurts
    Every other rank of the communicator waits in the collective that these have not launched.

Evidence
    The counts and states of one answer of RAS (`sightline stats communicator_progress`). No time is
    in it: what it costs cannot be told.

Threshold
    Two operations behind: between two answers of a running job ranks differ by one (NCCL's user
    guide, RAS). A rank that gave no answer, always.

Fix
    Look at what the named rank's process does: its log, or its stack (py-spy dump). A dead one has
    left a core dump or a message in the system's log.

False positives
    A job whose ranks launch small collectives faster than RAS asks; a communicator that is being
    made or given up. Ask again after some seconds: the counts of a job that runs have grown.

References
    NVIDIA NCCL user guide: RAS.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import NATIVE_STACKS, PYTHON_STACKS, choose_fix
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.communication.rules._late import name_ranks

RULE = Rule("rank-behind", "Rank gone or behind the others")
_LEAST_BEHIND = 2
_SHOWN = 8


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the communicator with ranks that are gone, else the furthest behind."""
    if not run.rows("communicator_ranks"):
        return
    rows = run.ask("communicator_progress")
    far = (pl.col("most") - pl.col("least")).fill_null(0) >= _LEAST_BEHIND
    rows = rows.filter((pl.col("gone").list.len() > 0) | far)
    if rows.is_empty():
        return
    first = rows.row(0, named=True)
    is_gone = bool(first["gone"])
    ranks = first["gone"] if is_gone else first["behind"]
    who = name_ranks(ranks).capitalize()
    where = f"communicator {first['group']} ({first['group_size']} ranks)"
    one = len(ranks) == 1
    if is_gone:
        said = f"{who} of {where} {'is' if one else 'are'} {first['state']}: no answer to RAS."
    else:
        kind = f"{first['op']} operations" if first["op"] else "collectives"
        said = (
            f"{who} of {where} {'has' if one else 'have'} launched {first['least']:,} {kind}, "
            f"others {first['most']:,}."
        )
    members = run.table("communicator_ranks").filter(
        pl.col("group") == first["group"],
        pl.col("member").is_in(ranks),
        pl.col("pid").is_not_null(),
    )
    places = members.unique("member", maintain_order=True).head(_SHOWN).iter_rows(named=True)
    yield build_finding(
        RULE,
        said,
        Evidence(
            [
                f"rank {row['member']}: process {row['pid']}, GPU {row['device_id']}"
                for row in places
            ],
            rows=rows.head(_SHOWN).to_dicts(),
            where={"ranks": ranks, "source": None},
        ),
        Advice(
            fix="ask RAS again; if it says the same, see that process' log, or  "
            + choose_fix(run, NATIVE_STACKS, python=PYTHON_STACKS),
            verify="sightline stats communicator_progress AFTER: no rank is behind",
            cause="the process died, is stuck, or went another way in the program",
            sources=("NVIDIA NCCL user guide: RAS",),
        ),
        severity="critical" if is_gone else "warning",
        confidence="high" if is_gone and first["state"] == "dead" else "low",
        method="counts from one RAS query: no time is measured",
        states_limit=True,
    )
