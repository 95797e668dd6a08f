"""Steps of programs that were measured without a profiler, and what compare says of their fixes."""

from __future__ import annotations

from functools import cache

import pytest

from support.campaigns import CAMPAIGNS, sample
from support.clock_truth import POINTS, Side, compare_pair, measure_side, read_truth
from support.corpus import SHARED

pytestmark = pytest.mark.corpus
TORCH = SHARED / "h100" / "torch"


@cache
def list_sides() -> list[Side]:
    measured = [
        measure_side(row, side, path)
        for row, paths in read_truth(TORCH)
        for side, path in paths.items()
    ]
    return [side for side in measured if side is not None]


@pytest.mark.campaign
def test_the_device_s_limit_is_the_clock_s_step() -> None:
    """Where recording took nothing of a step, it is as long as the clock says, to a tenth."""
    bound = [s for s in list_sides() if not s.is_host_bound]
    assert len(bound) >= 10
    assert [s.name for s in bound if not s.is_near] == []


@pytest.mark.campaign
def test_the_range_without_the_recorder_holds_the_clock_s_step() -> None:
    """Nine of ten, and no range is wider than a quarter."""
    sides = list_sides()
    assert sum(s.is_covered for s in sides) >= 0.9 * len(sides)
    assert all(0.749 <= s.low / s.estimate <= s.high / s.estimate <= 1.251 for s in sides)
    # The recorded steps of the same sides are off by up to 2.3 times.
    host = [s for s in sides if s.is_host_bound]
    assert sum(abs(s.ratio - 1) for s in host) < 0.4 * sum(
        abs(s.recorded / s.clock - 1) for s in host
    )


def test_fixes_are_confirmed() -> None:
    """But where the clock's own rounds overlap: nobody can call that faster, and nobody slower."""
    off, pairs = 0, 0
    for row, paths in sample(list(read_truth(TORCH)), 5):
        if len(paths) == 2:
            word, change = compare_pair(paths["before"], paths["after"])
            rounds = row["rounds"]
            apart = max(rounds["after"]) < min(rounds["before"])
            assert word in ("faster", *([] if apart else ["inconclusive"])), row["name"]
            assert change < 0, row["name"]
            off += abs(change + row["gain_pct"]) > POINTS
            pairs += 1
    assert pairs > 1
    assert off <= max(0.1 * pairs, 0 if CAMPAIGNS else 1)
