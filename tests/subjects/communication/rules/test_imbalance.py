"""imbalance: a rank comes late to a collective because it has more to compute."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import collective, kernel, launched, opened_ranks

RULE = "imbalance"


def two_ranks(folder: Path, work: int) -> Run:
    """Rank 0 computes for 100 µs, rank 1 for `work`; then a collective that needs 100."""
    return opened_ranks(
        folder,
        [launched(0, kernel("a", 10, 100)), launched(20, collective(110, work))],
        [launched(0, kernel("a", 10, work)), launched(20, collective(10 + work, 100))],
    )


def test_rank_1_has_nine_times_the_work(tmp_path: Path) -> None:
    """Rank 0 waits in [110, 910). With 100 µs of work on either rank the window is 200 µs."""
    found = assert_speaks(
        two_ranks(tmp_path, 900),
        RULE,
        cost_ns=800_000,
        gain_ns=800_000,
        evidence=[
            "1 of 1 collective, which",
            "800.0 µs",
            "compute there less than elsewhere: 800.0 µs",
        ],
        fix="split the work evenly",
        severity="critical",
    )
    assert found.where["late_ranks"] == [1]


def test_under_5_percent_of_all_windows(tmp_path: Path) -> None:
    """22 µs of two windows of 222 are 4.95 %; 23 of two of 223 are 5.2 %."""
    assert_silent(two_ranks(tmp_path / "a", 122), RULE)
    assert_speaks(
        two_ranks(tmp_path / "b", 123),
        RULE,
        cost_ns=23_000,
        gain_ns=23_000,
        evidence=["23.00 µs"],
        fix="split the work",
    )


def test_a_rank_that_is_fed_late_is_left_to_straggler_rank(tmp_path: Path) -> None:
    run = opened_ranks(
        tmp_path,
        [launched(0, kernel("a", 10, 100)), launched(20, collective(110, 900))],
        [launched(0, kernel("a", 10, 100)), launched(900, collective(910, 100))],
    )
    assert_silent(run, RULE)


def test_ranks_that_come_equally_late(tmp_path: Path) -> None:
    """Each waits once for the other: none of them is the late one."""
    run = opened_ranks(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, collective(110, 500)),
            launched(30, kernel("b", 610, 500)),
            launched(40, collective(1110, 100)),
        ],
        [
            launched(0, kernel("a", 10, 500)),
            launched(20, collective(510, 100)),
            launched(30, kernel("b", 610, 100)),
            launched(40, collective(710, 500)),
        ],
    )
    assert_silent(run, RULE)
