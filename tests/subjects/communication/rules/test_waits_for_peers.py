"""waits-for-peers: one collective of many of one size takes far longer than the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent
from support.traces import collective, kernel, launched, opened

RULE = "waits-for-peers"


def collectives(folder: Path, *lengths: int, floats: int = 1_000, behind: int = 0) -> Run:
    """Collectives of one size, each of so many µs, and kernels of 100 µs behind each.

    `behind`: before them comes a kernel of so many µs.
    """
    events = [launched(0, kernel("first", 500, behind))] if behind else []
    at = 500 + behind
    for number, length in enumerate(lengths, 1):
        events.append(launched(10 * number, collective(at, length, floats=floats)))
        events.append(launched(10 * number + 5, kernel("k", at + length, 100)))
        at += length + 100
    return opened(folder, events)


def test_one_of_four_takes_a_hundred_times_as_long(tmp_path: Path) -> None:
    """The three others take 20 µs: 1,980 of 2,000 are waiting, and no transfer's."""
    run = collectives(tmp_path, 2_000, 20, 20, 20)
    (found,) = answers(run, RULE)
    assert (found.cost_ns, found.gain, found.severity) == (1_980_000, None, "info")
    assert found.states_limit
    assert "takes 2.000 ms, where most of the same size take 20.00 µs" in found.evidence[0]
    assert (found.fix or "").startswith("it is the first collective here")
    row = run.ask("comm_exposure").row(0, named=True)
    assert (row["waiting_ns"], row["small_ns"], row["transfer_ns"]) == (1_980_000, 80_000, 0)
    # What is left are four of 20 µs, under 5 % of the window.
    assert_silent(run, "small-collectives")


def test_it_need_not_be_the_first(tmp_path: Path) -> None:
    (found,) = answers(collectives(tmp_path, 20, 20, 2_000, 20, behind=1_000), RULE)
    assert (found.fix or "").startswith("record all ranks over the same time")
    assert found.cost_ns == 1_980_000


@pytest.mark.parametrize(
    "lengths",
    [
        (2_000, 20),  # two: nobody knows which is usual
        (200, 20, 20, 20),  # ten times, and no more
        (99, 5, 5, 5),  # less than a tenth of a millisecond
        (20, 20, 20, 20),
    ],
)
def test_what_proves_nothing(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    assert_silent(collectives(tmp_path, *lengths), RULE)


def test_of_other_sizes_nothing_follows(tmp_path: Path) -> None:
    events = [
        launched(10 * n, collective(500 + 3_000 * n, 2_000 if n == 0 else 20, floats=1_000 + n))
        for n in range(4)
    ]
    assert_silent(opened(tmp_path, events), RULE)
