"""exposed-communication: transfers with no compute beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import Event, collective, kernel, launched, opened, opened_ranks

RULE, NCCL = "exposed-communication", "ncclDevKernel_AllReduce"


def between(folder: Path, work: Event) -> Run:
    """A window of 1,000 µs: kernel, communication from 500 on, kernel, all queued."""
    end = work["ts"] + work["dur"]
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, work),
            launched(40, kernel("b", end, 1_010 - end)),
        ],
    )


@pytest.mark.parametrize(
    ("work", "known"), [(kernel(NCCL, 500, 400), False), (collective(500, 400), True)]
)
def test_400_of_1000_us(tmp_path: Path, work: Event, known: bool) -> None:
    found = assert_speaks(
        between(tmp_path, work),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs of communication on 1 device, 400.0 µs of it exposed"],
        fix="smaller buckets",
        severity="critical",
    )
    assert ("none recorded" in "".join(found.evidence)) != known


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(between(tmp_path / "a", kernel(NCCL, 500, 49)), RULE)
    assert_speaks(
        between(tmp_path / "b", kernel(NCCL, 500, 50)),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="smaller buckets",
    )


def test_half_hidden(tmp_path: Path) -> None:
    """[100, 300) beside a kernel of [0, 200): 100 of 300 µs are exposed.

    Cut to nothing, it ends with its begin, and the window with the kernel.
    """
    run = opened(tmp_path, [kernel("a", 0, 200), kernel(NCCL, 100, 200, stream=9)])
    found = assert_speaks(
        run,
        RULE,
        cost_ns=100_000,
        gain_ns=100_000,
        evidence=["200.0 µs of communication on 1 device, 100.0 µs of it exposed"],
        fix="smaller buckets",
    )
    assert "50.0 %" in found.summary


def rank(compute: int, idle: int = 0) -> list[list[Event]]:
    """Compute, then a pause, then communication until 1,010; nothing says how ranks belong."""
    at = 10 + compute + idle
    called = at - 10 if idle else 20
    return [launched(0, kernel("a", 10, compute)), launched(called, kernel(NCCL, at, 1_010 - at))]


@pytest.mark.parametrize(
    ("late", "cost", "gain", "who", "why"),
    [
        # The late rank's window shrinks from 1,000 to the 900 of its compute.
        ([rank(900)], 1_300, 100, "rank 0", "more compute runs there"),
        ([rank(900), rank(900)], 2_000, 100, "ranks 0 and 1", "more compute runs there"),
        # Or to compute and pause, which the rule leaves as they are.
        ([rank(400, 500)], 1_300, 100, "rank 0", "it is the host there"),
        ([rank(400, 500)] * 2, 2_000, 100, "ranks 0 and 1", "it is the host there"),
    ],
)
def test_ranks_with_less_communication_are_the_late_ones(
    tmp_path: Path, late: list[list[Event]], cost: int, gain: int, who: str, why: str
) -> None:
    """The late ones communicate for 10 % of their window, as many and one more others for 60 %."""
    others = [rank(400)] * max(2, len(late) + 1)
    run = opened_ranks(tmp_path, *late, *others)
    found = assert_speaks(
        run,
        RULE,
        cost_ns=1000 * (100 * len(late) + 600 * len(others)),
        gain_ns=1000 * gain,
        evidence=["idle: 50.0 %" if "host" in why else "compute: 90.0 %"],
        fix=f"make {who} faster first",
    )
    assert why in found.fix
    assert found.where["late_ranks"] == list(range(len(late)))
    assert "10.0 %" in found.summary


def test_waiting_is_not_counted_where_ranks_can_be_matched(tmp_path: Path) -> None:
    """Rank 1 comes 300 µs late to a collective that then takes 600: these are exposed twice.

    Hidden, the 600 would run beside the 400 of the kernel: 400 of 1,000 µs are won, not 600.
    """
    run = opened_ranks(
        tmp_path,
        [launched(0, kernel("a", 10, 100)), launched(20, collective(110, 900))],
        [launched(0, kernel("a", 10, 400)), launched(20, collective(410, 600))],
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=1_200_000,
        gain_ns=400_000,
        evidence=["1.500 ms of communication on 2 devices, 1.200 ms of it exposed", "late ranks"],
        fix="smaller buckets",
    )
