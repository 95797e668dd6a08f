"""ncu-small-grid: fewer blocks than the device could hold."""

from __future__ import annotations

from pathlib import Path

from support.profiled import SM, TIME, opened, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-small-grid"
WAVES = "launch__waves_per_multiprocessor"
METRICS = {SM: 30.0}


def test_20_blocks_on_80_sms(tmp_path: Path) -> None:
    """Three quarters of the SMs are empty."""
    assert_speaks(
        profiled(tmp_path, METRICS, blocks=20),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["20 blocks of 256 threads on 80 SMs"],
        fix="more, smaller blocks",
        severity="warning",
        confidence="medium",
    )


def test_one_thread_is_given_all_items_in_one_launch(tmp_path: Path) -> None:
    (found,) = answers(profiled(tmp_path, METRICS, blocks=1, threads=1), RULE)
    assert found.fix.startswith("one thread does all of it: let one launch take all items")
    (found,) = answers(profiled(tmp_path / "more", METRICS, blocks=20), RULE)
    assert "one launch" not in found.fix


def test_blocks_of_other_sizes_took_as_long(tmp_path: Path) -> None:
    """8,192 threads in 8, 64 and 256 blocks, the last of them one and more for each SM."""

    def launch(folder: Path, *times: float) -> str:
        shapes = zip((8, 64, 256), (1024, 128, 32), times, strict=True)
        kernels = [
            Kernel(grid=(blocks, 1, 1), block=(size, 1, 1), metrics={SM: 5.0, TIME: time})
            for blocks, size, time in shapes
        ]
        return str(answers(opened(folder, report(kernels)), RULE)[0].fix)

    same = launch(tmp_path, 9_650_000.0, 9_530_000.0, 9_480_000.0)
    assert same.startswith("more threads, not other blocks (blocks of 32 to 1,024 threads took")
    faster = launch(tmp_path / "faster", 9_650_000.0, 5_000_000.0, 3_000_000.0)
    assert faster.startswith("use more, smaller blocks")


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section LaunchStats")


def test_a_block_for_each_sm(tmp_path: Path) -> None:
    assert_silent(profiled(tmp_path, METRICS, blocks=80), RULE)


def test_less_than_a_wave(tmp_path: Path) -> None:
    """40 % of the room are empty, of what is left to the limit: 70 %."""
    assert_speaks(
        profiled(tmp_path, METRICS | {WAVES: 0.6}, blocks=288),
        RULE,
        cost_ns=2800,
        gain_ns=2800,
        evidence=["288 blocks of 256 threads on 80 SMs, 0.60 waves"],
        fix="more, smaller blocks",
    )
    assert_silent(profiled(tmp_path / "b", METRICS | {WAVES: 1.0}, blocks=480), RULE)


def test_a_block_an_sm_leaves_none_idle(tmp_path: Path) -> None:
    """80 blocks on 80 SMs, of which each has room for six."""
    run = profiled(tmp_path, METRICS | {WAVES: 1 / 6}, blocks=80)
    (found,) = answers(run, RULE)
    assert "1.0 blocks an SM on average, and 6 would fit" in found.summary
    assert "idle" not in found.summary
    assert_silent(profiled(tmp_path / "busy", {SM: 75.0, WAVES: 1 / 6}, blocks=80), RULE)


def test_some_sms_empty_and_room_on_the_others(tmp_path: Path) -> None:
    """72 of 80 SMs have a block, where two would fit: the larger estimate, 0.55 × 70 %."""
    run = profiled(tmp_path, METRICS | {WAVES: 0.45}, blocks=72)
    (found,) = answers(run, RULE)
    assert "8 of the SMs stay idle, 0.45 waves: 0.9 blocks an SM on average" in found.summary
    assert found.gain.amount == 3850


def test_a_part_of_a_unit_says_that_the_kernel_is_at_its_limit(tmp_path: Path) -> None:
    """A fourth of a wave that keeps shared memory busy, in a report without throughputs."""
    shared = "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"
    assert_silent(profiled(tmp_path, {shared: 93.0, WAVES: 0.25}, blocks=80), RULE)
    assert answers(profiled(tmp_path / "idle", {shared: 9.0, WAVES: 0.25}, blocks=80), RULE)


def test_a_block_for_each_sm_of_unknown_throughput(tmp_path: Path) -> None:
    """Persistent blocks may have a unit at its limit: nothing was collected that tells."""
    known = {WAVES: 0.17}
    assert_speaks(
        profiled(tmp_path / "known", {**METRICS, **known}, blocks=80),
        RULE,
        cost_ns=5810,
        gain_ns=5810,
        evidence=["0.17 waves"],
        fix="more, smaller blocks",
    )
    assert_silent(profiled(tmp_path / "unknown", known, blocks=80), RULE)
