"""Free joules: a plan from a recording and noisy readings, against a simulated power model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.fleet.clock_plan import list_commands, plan_clocks
from sightline.fleet.job import Job, compose_job, replay_slower
from sightline.fleet.power_table import Level, make_levels, read_power_table
from sightline.fleet.read import reduce_recordings
from support.command import sightline
from support.jobs import collective
from support.many_ranks import CLOCK, Cause, Program, write_ranks
from support.traces import kernel, write

HIGHEST, CLOCKS = 1980, (1980, 1830, 1680, 1530, 1380, 1230, 1080)
SLOW = 2
PROGRAM = Program(8, steps=8, kernel_ns=120_000, causes=(Cause(CLOCK, SLOW, 0.35),))


def slow_down(mhz: int) -> float:
    """Of compute, in truth: a fifth of it is the memory's, whose clock stays."""
    return 0.8 * HIGHEST / mhz + 0.2


def take_power(mhz: int, *, busy: bool) -> float:
    """Watts, in truth: leakage, and switching by the voltage, which falls to a floor."""
    volt = max(0.72, 0.72 + 0.36 * (mhz - 1300) / (HIGHEST - 1300))
    return 95 * volt / 1.08 + (470 if busy else 115) * (mhz / HIGHEST) * (volt / 1.08) ** 2


def read_noisy(seed: int, count: int = 6) -> list[tuple[int, float, float, float | None]]:
    """Readings that vary by 2 %, of the power, and 1 %, of how long the same step takes."""
    dice = np.random.default_rng(seed)
    return [
        (
            mhz,
            take_power(mhz, busy=True) * dice.normal(1, 0.02),
            take_power(mhz, busy=False) * dice.normal(1, 0.02),
            slow_down(mhz) * dice.normal(1, 0.01),
        )
        for mhz in CLOCKS
        for _ in range(count)
    ]


def play_energy(clocks: list[int]) -> tuple[float, int]:
    """Joules of all ranks at these clocks, and the job's length, ns: by the truth."""
    causes = [Cause(CLOCK, rank, slow_down(mhz) - 1) for rank, mhz in enumerate(clocks)]
    played = PROGRAM.play([*PROGRAM.causes, *causes])
    works = np.array([layer is None for layer in played.collective])
    busy = (played.end - played.start)[works].sum(0)
    joules = sum(
        (take_power(mhz, busy=True) * own + take_power(mhz, busy=False) * (played.length_ns - own))
        for mhz, own in zip(clocks, busy.tolist(), strict=True)
    )
    return joules / 1e9, played.length_ns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    list(write_ranks(PROGRAM, folder))
    return folder


@pytest.fixture(scope="module")
def job(folder: Path) -> Job:
    return compose_job(reduce_recordings([str(folder)]).ranks)


@pytest.mark.parametrize("seed", range(6))
def test_joules_are_within_a_tenth_of_the_truth(job: Job, seed: int) -> None:
    plan = plan_clocks(job, make_levels(read_noisy(seed)))
    clocks = plan.rows.get_column("mhz").to_list()
    assert clocks[SLOW] == HIGHEST  # the others wait for it
    assert all(mhz < HIGHEST for rank, mhz in enumerate(clocks) if rank != SLOW)
    before, length = play_energy([HIGHEST] * 8)
    after, longer = play_energy(clocks)
    assert plan.length_ns == length
    assert plan.energy_j == pytest.approx(before, rel=0.05)
    saved = before - after
    assert saved > 0.1 * before
    assert plan.saved_j == pytest.approx(saved, rel=0.10)
    assert plan.saved_j_least <= saved <= plan.saved_j_most
    assert plan.longer_most <= 0.005
    # Kernels' own noise is another at another clock: the truth may differ by that.
    assert longer / length - 1 <= plan.longer_most + 0.001


def test_without_known_slowdowns_the_clocks_ratio_bounds_time(job: Job) -> None:
    readings = [(mhz, busy, waiting, None) for mhz, busy, waiting, _ in read_noisy(1)]
    plan = plan_clocks(job, make_levels(readings))
    clocks = plan.rows.get_column("mhz").to_list()
    before, length = play_energy([HIGHEST] * 8)
    after, longer = play_energy(clocks)
    assert plan.saved_j_least <= before - after <= plan.saved_j_most
    assert longer / length - 1 <= plan.longer_most + 0.001


def test_ranks_that_wait_for_nobody_keep_their_clock(tmp_path: Path) -> None:
    program = Program(8, steps=4, kernel_ns=120_000)
    list(write_ranks(program, tmp_path))
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    plan = plan_clocks(job, make_levels(read_noisy(3)), may_lose=0.0)
    assert plan.rows.get_column("mhz").to_list() == [HIGHEST] * 8
    assert (plan.saved_j, plan.longer_most, list_commands(plan)) == (0.0, 0.0, [])


def flat(mhz: int, slowdown: float, busy_w: float) -> Level:
    return Level(mhz, busy_w, 0.0, 100.0, 0.0, slowdown, slowdown, slowdown)


def test_by_hand(tmp_path: Path) -> None:
    """Rank 0 computes for 50 of the 100 µs that rank 1 does; then they meet for 10 µs."""
    for rank, work in enumerate((50, 100)):
        events = [kernel("gemm", 0, work), collective(work, 110 - work, members=range(2))]
        told = {"rank": rank, "world_size": 2}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=told)
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    twice, thrice = flat(1000, 2.0, 200.0), flat(500, 3.0, 150.0)
    assert replay_slower(job, np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])) == [
        110_000, 110_000, 160_000,
    ]  # fmt: skip
    plan = plan_clocks(job, [flat(2000, 1.0, 500.0), twice, thrice], may_lose=0.0)
    assert plan.rows.get_column("mhz").to_list() == [1000, 2000]
    # Rank 0: 50 µs × 500 W + 60 µs × 100 W = 31 mJ; then 100 µs × 200 W + 10 µs × 100 W = 21 mJ.
    assert plan.saved_j == pytest.approx(0.010)
    assert (plan.saved_j_least, plan.saved_j_most) == (pytest.approx(0.010), pytest.approx(0.010))
    assert plan.energy_j == pytest.approx(0.031 + 0.051)
    assert list_commands(plan) == [(0, "nvidia-smi -i 0 -lgc 1000,1000")]


def write_table(path: Path) -> Path:
    rows = "\n".join(",".join(f"{value:.4f}" for value in row) for row in read_noisy(0))
    path.write_text(f"mhz,busy_w,waiting_w,slowdown\n{rows}\n")
    return path


def test_the_command(folder: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "power.csv")
    done = sightline("ranks", folder, "--power", table)
    assert done.code == 0, done.err
    assert "nvidia-smi -i 0 -lgc" in done.out
    assert "nvidia-smi -rgc" in done.out
    told = json.loads(sightline("ranks", folder, "--power", table, "--json").out)["clock_plan"]
    assert told["highest_mhz"] == HIGHEST
    assert len(told["ranks"]) == 8
    assert told["saved_j_least"] < told["saved_j"] < told["saved_j_most"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no column mhz"),
        ("mhz,busy_w\n1,2\n", "no column waiting_w"),
        ("mhz,busy_w,waiting_w\n1,2,x\n", "could not convert"),
        ("mhz,busy_w,waiting_w\n1,2\n", "could not convert"),
        ("mhz,busy_w,waiting_w\n1,nan,2\n", "a number is malformed"),
        ("mhz,busy_w,waiting_w\n1,-5,2\n", "powers up to"),
        ("mhz,busy_w,waiting_w\n9,5,2\n9,5,2\n", "it has 1 clock"),
        ("mhz,busy_w,waiting_w\n9,5,2\n8,5,2\n", "one reading"),
        ("mhz,busy_w,waiting_w\n" + "9,5,2\n" * 200_000, "more than 1 mib"),
        ("mhz,busy_w,waiting_w\n" + "".join(f"{n},5,2\n" for n in range(1, 99)), "98 clocks"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "power.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_power_table(path)
    assert why in str(caught.value.why)
