"""straggler-rank: a rank comes late to a collective because its host launches late."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import collective, kernel, launched, opened, opened_ranks

RULE = "straggler-rank"


def two_ranks(folder: Path, late: int) -> Run:
    """Kernel, collective, kernel, collective, kernel, of 100 µs each. To the second collective
    rank 1 comes `late` µs late, because its call does.
    """
    there, last = 310 + late, 410 + late
    common = [
        launched(0, kernel("a", 10, 100)),
        launched(20, collective(110, 100)),
        launched(40, kernel("b", 210, 100)),
    ]
    return opened_ranks(
        folder,
        [*common, launched(60, collective(310, 100 + late)), launched(80, kernel("c", last, 100))],
        [
            *common,
            launched(there - 10, collective(there, 100)),
            launched(there + 10, kernel("c", last, 100)),
        ],
    )


def test_rank_1_comes_800_us_late(tmp_path: Path) -> None:
    """Rank 0 is in the collective from 310 on, rank 1 from 1110 on: [310, 1110) is waiting, and on
    rank 1 idle. If only the usual 15 µs passed between its calls, its second collective would wait
    for kernel b, and begin 1 µs behind it, at 311.
    """
    found = assert_speaks(
        two_ranks(tmp_path, 800),
        RULE,
        cost_ns=800_000,
        gain_ns=799_000,
        evidence=["of 2 collectives", "800.0 µs", "idle: 800.0 µs"],
        fix="idle gaps",
        severity="critical",
    )
    assert found.where["late_ranks"] == [1]


def test_under_5_percent_of_all_windows(tmp_path: Path) -> None:
    """55 µs of two windows of 555 are 4.95 %; 56 of two of 556 are 5.04 %."""
    assert_silent(two_ranks(tmp_path / "a", 55), RULE)
    assert_speaks(
        two_ranks(tmp_path / "b", 56),
        RULE,
        cost_ns=56_000,
        gain_ns=55_000,
        evidence=["56.00 µs"],
        fix="idle gaps",
    )


def test_one_rank_alone_waits_for_nobody_known(tmp_path: Path) -> None:
    run = opened(tmp_path, [launched(0, kernel("a", 10, 100)), launched(20, collective(110, 900))])
    assert_silent(run, RULE)


@pytest.mark.xfail(strict=True, reason="the pause is cut, and the rank begins earlier besides")
def test_late_to_the_first_collective(tmp_path: Path) -> None:
    """The same 800 µs in front of the first collective. Both ranks began at once."""
    run = opened_ranks(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, collective(110, 900)),
            launched(40, kernel("b", 1010, 100)),
        ],
        [
            launched(0, kernel("a", 10, 100)),
            launched(900, collective(910, 100)),
            launched(920, kernel("b", 1010, 100)),
        ],
    )
    assert_speaks(
        run, RULE, cost_ns=800_000, gain_ns=799_000, evidence=["800.0 µs"], fix="idle gaps"
    )
