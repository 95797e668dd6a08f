"""POP's factors of processes without a device: known programs, and a replay by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.fleet.host_efficiency import measure_host_efficiency
from support.command import sightline as command
from support.stepped import MS, write_program

STEPS = range(2, 6)


def write_ranks(folder: Path, work: list[int], wait: list[int]) -> sightline.Run:
    """Each step: work, then a collective until all are there, for `wait` of the rank."""
    for rank, (busy, waits) in enumerate(zip(work, wait, strict=True)):
        operators = [("aten::mm", 0, busy), ("c10d::allreduce_", busy, busy + waits)]
        write_program(
            folder, step_ns=busy + waits, steps=8, recorded=STEPS, operators=operators, rank=rank
        )
    return sightline.open(str(folder))


def test_the_factors_of_a_late_rank(tmp_path: Path) -> None:
    # Rank 0 works 6 ms and waits 4, of which 3 for rank 1, which works 9 and waits 1.
    found = measure_host_efficiency(write_ranks(tmp_path / "run", [6 * MS, 9 * MS], [4 * MS, MS]))
    assert (found.ranks, found.length_ns) == (2, 40 * MS)
    assert found.useful_ns == 4 * 15 * MS
    assert found.load_balance == pytest.approx(7.5 / 9)
    assert found.serialisation == 1.0  # the same rank is last in each step
    assert found.transfer == pytest.approx(9 / 10)
    assert found.parallel == pytest.approx(4 * 15 / (2 * 40))


def test_ranks_that_take_turns_in_being_late_are_serialised(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for rank in (0, 1):
        late = {n: (9 if n % 2 == rank else 6) * MS for n in STEPS}
        operators = {
            n: [("aten::mm", 0, busy), ("c10d::allreduce_", busy, 10 * MS)]
            for n, busy in late.items()
        }
        write_program(
            folder, step_ns=10 * MS, steps=8, recorded=STEPS, operators=operators, rank=rank
        )
    found = measure_host_efficiency(sightline.open(str(folder)))
    # By hand: useful 30 ms a rank; each step ends for both with the 9 ms of one of them.
    assert found.load_balance == 1.0
    assert found.serialisation == pytest.approx(30 / 36)
    assert found.transfer == pytest.approx(36 / 40)


def test_unmatched_collectives_count_as_transfer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for rank, times in enumerate((1, 2)):
        operators = [("aten::mm", 0, 6 * MS)]
        operators += [("c10d::allreduce_", 6 * MS + n * MS, 7 * MS + n * MS) for n in range(times)]
        write_program(
            folder, step_ns=8 * MS, steps=8, recorded=STEPS, operators=operators, rank=rank
        )
    found = measure_host_efficiency(sightline.open(str(folder)))
    assert found.serialisation == 1.0
    assert found.transfer == pytest.approx(4 * 7 / 32)


def test_scaling_takes_jobs_without_a_device(tmp_path: Path) -> None:
    write_ranks(tmp_path / "one", [16 * MS], [0])
    write_ranks(tmp_path / "two", [8 * MS, 8 * MS], [2 * MS, 2 * MS])
    outcome = command("scaling", str(tmp_path / "one"), str(tmp_path / "two"))
    assert outcome.code == 0, outcome.err
    row = next(line for line in outcome.out.splitlines() if line.startswith("     2"))
    # 64 ms on one rank, 40 on two: 0.8, all of it lost to the collectives.
    assert row.split() == "2 40.00 ms 0.800 = 1.000 × 1.000 × 1.000 × 0.800".split()  # noqa: SIM905
