"""collective-below-bandwidth: transfers far slower than the same group's best."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_abstains, assert_silent, assert_speaks
from support.traces import collective, kernel, launched, opened, opened_ranks

RULE = "collective-below-bandwidth"


def two_ranks(folder: Path, slow: int, usual: int = 5) -> Run:
    """All-reduces of 4 MB, one behind the other: `usual` ones of 100 µs and one of `slow` µs."""
    lengths = [100] * usual + [slow]
    rank = [
        launched(10 * i, collective(100 + sum(lengths[:i]), length))
        for i, length in enumerate(lengths)
    ]
    return opened_ranks(folder, rank, rank)


def test_one_of_six_takes_four_times_as_long(tmp_path: Path) -> None:
    """4 MB in 400 µs are 10 GB/s, in 100 µs 40 (an all-reduce of two moves each byte once).

    300 µs too many on either rank, and the window is as much shorter without them.
    """
    assert_speaks(
        two_ranks(tmp_path, 400),
        RULE,
        cost_ns=600_000,
        gain_ns=300_000,
        evidence=["4.000 MB over 2 ranks", "10.0 GB/s", "40.0 GB/s"],
        fix="NCCL_DEBUG=INFO",
        severity="critical",
    )


def test_half_of_the_best_is_not_below_half(tmp_path: Path) -> None:
    assert_silent(two_ranks(tmp_path / "a", 200), RULE)
    assert_speaks(
        two_ranks(tmp_path / "b", 201),
        RULE,
        cost_ns=202_000,
        gain_ns=101_000,
        evidence=["19.9 GB/s"],
        fix="NCCL_DEBUG",
    )


def test_four_are_too_few_to_know_the_best(tmp_path: Path) -> None:
    assert_silent(two_ranks(tmp_path, 400, usual=3), RULE)


def test_under_5_percent_of_all_windows(tmp_path: Path) -> None:
    """150 too many of 4,150 µs are 3.6 %."""
    assert_silent(two_ranks(tmp_path, 250, usual=40), RULE)


def test_without_sizes_it_is_not_judged(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("ncclDevKernel_AllReduce", 0, 100), kernel("a", 100, 100)])
    assert_abstains(run, RULE, "sizes and groups of collectives are not recorded")


def test_one_rank_alone_is_not_judged(tmp_path: Path) -> None:
    run = opened(tmp_path, [collective(0, 100), kernel("a", 100, 100)])
    assert_abstains(run, RULE, "all ranks together")


def test_where_communication_is_short_nothing_is_missed(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("ncclDevKernel_AllReduce", 0, 10), kernel("a", 10, 990)])
    assert_silent(run, RULE)
