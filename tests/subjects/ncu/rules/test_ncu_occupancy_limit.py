"""ncu-occupancy-limit: a launch that lets few warps onto an SM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import FULL_SM, ISSUE, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-occupancy-limit"
REGISTERS, SHARED = "launch__registers_per_thread", "launch__shared_mem_per_block_driver"
METRICS = FULL_SM | {REGISTERS: 128.0, ISSUE: 0.2, SM: 30.0}


def test_two_blocks_for_their_registers(tmp_path: Path) -> None:
    """A warp of 128 registers a thread takes 4,096 of a scheduler's 16,384: four, so two blocks of
    eight warps. 16 of 48 are a third.
    """
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=6667,
        gain_ns=6667,
        evidence=["16 of 48 warps fit an SM (33.3 %), limited by registers"],
        fix="__launch_bounds__",
        severity="warning",
        confidence="medium",
    )


WAVES = "launch__waves_per_multiprocessor"


@pytest.mark.parametrize(
    ("waves", "is_told"), [(5.0, True), (3.0, False)], ids=["2 µs a block", "3.3 µs a block"]
)  # fmt: skip
def test_blocks_that_are_over_at_once_need_more_work_first(
    tmp_path: Path, waves: float, *, is_told: bool
) -> None:
    """The kernel takes 10 µs."""
    (found,) = answers(profiled(tmp_path, METRICS | {WAVES: waves}), RULE)
    assert ("several items first" in (found.fix or "")) == is_told
    assert "__launch_bounds__" in (found.fix or "")


CLOCK = "sm__cycles_elapsed.avg.per_second"


@pytest.mark.parametrize(
    ("blocks", "is_told"), [(1600, True), (160, False)], ids=["50 instructions", "500 instructions"]
)  # fmt: skip
def test_threads_with_work_enough_need_room_alone(
    tmp_path: Path, blocks: int, *, is_told: bool
) -> None:
    """10,000 cycles with an instruction in 0.2 of them, for 40 or 4 warps of each scheduler."""
    run = profiled(tmp_path, METRICS | {WAVES: 5.0, CLOCK: 1e9}, blocks=blocks)
    (found,) = answers(run, RULE)
    assert ("several items first" in (found.fix or "")) == is_told


@pytest.mark.parametrize(
    "change",
    [{REGISTERS: 40.0}, {ISSUE: 0.6}, {REGISTERS: None}],
    ids=["four blocks of five", "busy schedulers", "no launch"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "ncu")


@pytest.mark.parametrize(
    ("limited", "warps", "gain", "fix"),
    [
        # 51,200 of 102,400 bytes a block: two blocks, 16 warps.
        ({SHARED: 51_200.0}, 16, 6667, "less shared memory"),
        # 96 threads are 3 warps, of which 16 blocks are allowed: 48 warps.
        ({"launch__occupancy_limit_barriers": 3.0}, 24, 5000, "fewer barriers"),
    ],
)
def test_other_limits(
    tmp_path: Path, limited: dict[str, float], warps: int, gain: int, fix: str
) -> None:
    assert_speaks(
        profiled(tmp_path, FULL_SM | limited | {ISSUE: 0.2}),
        RULE,
        cost_ns=gain,
        gain_ns=gain,
        evidence=[f"{warps} of 48 warps"],
        fix=fix,
    )


def test_what_else_bounds_the_gain(tmp_path: Path) -> None:
    """Half of the issue slots are used, and 59 % of the SM's throughput."""
    for name, busy, gain in (("a", {ISSUE: 0.5}, 5000), ("b", {SM: 59.0}, 4100)):
        assert_speaks(
            profiled(tmp_path / name, METRICS | busy),
            RULE,
            cost_ns=gain,
            gain_ns=gain,
            evidence=["registers"],
            fix="__launch_bounds__",
        )


def test_a_unit_binds_the_kernel(tmp_path: Path) -> None:
    """From 60 % of a unit's peak on, few warps are not problem: as of products by tensor cores."""
    assert_silent(profiled(tmp_path, METRICS | {SM: 71.5}), RULE)


def test_a_grid_that_fits_at_once(tmp_path: Path) -> None:
    """159 blocks on 80 SMs of two each: room for more would stay empty.

    One more fills them: that is a grid made for this room, which grows with it.
    """
    assert_silent(profiled(tmp_path / "less", METRICS, blocks=159), RULE)
    assert answers(profiled(tmp_path / "full", METRICS, blocks=160), RULE)
