"""What a person sees first of a table, and what a program gets of it."""

from __future__ import annotations

import json

import pytest

from sightline.core import registry
from support.command import sightline
from support.places import EXAMPLES

TRACE = str(EXAMPLES / "simulated-dataloader.json.gz")
DECLARED = [module.ANALYSIS for _, module in registry.load_members("analyses")]


def test_the_longest_gaps_stand_first_for_a_person_and_in_order_for_a_program() -> None:
    screen = sightline("stats", "idle_gaps", TRACE, "--limit", "3")
    rows = json.loads(sightline("stats", "idle_gaps", TRACE, "--json").out)
    starts = [row["start_ns"] for row in rows]
    assert starts == sorted(starts)
    longest = sorted(rows, key=lambda row: -row["duration_ns"])[:3]
    shown = [line.split()[2:4] for line in screen.out.splitlines()[2:5]]
    lengths = [round(1e6 * (float(end) - float(start))) for start, end in shown]
    assert lengths == [row["duration_ns"] for row in longest]
    assert "most duration_ns first" in screen.err


@pytest.mark.parametrize(
    "declared", [a for a in DECLARED if a.worst], ids=lambda declared: str(declared.name)
)
def test_the_worst_is_a_column_of_numbers(declared: object) -> None:
    (column,) = [c for c in declared.columns if c.name == declared.worst]  # type: ignore[attr-defined]
    assert column.unit in ("ns", "bytes", "%")
