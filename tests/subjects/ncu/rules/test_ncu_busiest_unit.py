"""ncu-busiest-unit: a unit at 60 to 80 % of its peak bounds the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.roofline.launch import ACHIEVED
from support.profiled import L1, MEMORY, SM, TIME, opened, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE, ENDING = "ncu-busiest-unit", "avg.pct_of_peak_sustained_elapsed"
TENSOR, L2 = f"sm__pipe_tensor_cycles_active.{ENDING}", f"lts__throughput.{ENDING}"
METRICS = {SM: 71.5, MEMORY: 40.0, L2: 40.0, TENSOR: 71.5, "launch__waves_per_multiprocessor": 4.0}


def test_a_product_by_tensor_cores(tmp_path: Path) -> None:
    run = profiled(tmp_path, METRICS | {"smsp__issue_active.avg.per_cycle_active": 0.3})
    assert_speaks(
        run,
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["The SM is the busiest unit, at 71.5 %", "the tensor pipe, at 71.5 %"],
        fix="less work",
        severity="info",
    )
    said = [f for f in sightline.findings(run) if not f.abstained]
    assert said[0].rule == RULE  # and no word of issue slots, which are used by 30 %
    assert not [f for f in said if f.gain_ns]


@pytest.mark.parametrize(
    "change",
    [{SM: 59.0, TENSOR: 59.0}, {SM: 80.0, TENSOR: 80.0}],
    ids=["it waits", "ncu-pipe-limit says it"],
)
def test_silence(tmp_path: Path, change: dict[str, float]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_instructions_that_are_issued_nearly_all_the_time(tmp_path: Path) -> None:
    """No pipe is as busy as the slots: what stands between the kernel and its end is their number.

    Loads of bytes beside it shorten waits at most.
    """
    issue, xu = f"sm__issue_active.{ENDING}", f"sm__inst_executed_pipe_xu.{ENDING}"
    busy = {SM: 85.9, MEMORY: 51.0, issue: 85.9, xu: 73.5, TENSOR: 5.0}
    run = profiled(tmp_path, METRICS | busy)
    assert_speaks(
        run,
        RULE,
        cost_ns=0,
        gain_ns=0,
        evidence=["The SM is the busiest unit, at 85.9 %", "instruction issue, at 85.9 %"],
        fix="fewer instructions for the same result",
    )
    assert_silent(profiled(tmp_path / "pipe", METRICS | busy | {xu: 86.0}), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SpeedOfLight")


def test_what_binds_most_of_the_time_leads(tmp_path: Path) -> None:
    """A kernel of 5 % waits for nothing that is said; the one of 95 % is bound by its pipe."""
    xu = f"sm__inst_executed_pipe_xu.{ENDING}"
    bound = {SM: 72.8, MEMORY: 51.0, xu: 72.8, TIME: 950_000.0}
    waits = {SM: 40.0, MEMORY: 40.0, TIME: 100_000.0}
    kernels = [
        Kernel(name=name, grid=(1600, 1, 1), metrics=metrics)
        for name, metrics in (("iterate(int *)", bound), ("reduce(int *)", waits))
    ]
    first, second = sightline.findings(opened(tmp_path, report(kernels)))[:2]
    assert (first.rule, first.where["kernel"]) == (RULE, "iterate(int *)")
    assert "bit scans" in first.fix
    assert (second.severity, second.where["kernel"]) == ("warning", "reduce(int *)")


def test_sectors_that_keep_the_l1s_tags_busy(tmp_path: Path) -> None:
    """Memory's throughput has the data stage alone: the kernel is not bound by latency."""
    data = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
    lit = {SM: 16.0, MEMORY: 48.0, L1: 97.0, data: 48.0, "launch__waves_per_multiprocessor": 8.0}
    run = profiled(tmp_path, lit)
    (first, *others) = [f for f in sightline.findings(run) if not f.abstained]
    assert first.rule == RULE
    assert "The L1 is the busiest unit, at 97.0 % of its peak, and its data stage at 48.0 %" in (
        first.summary
    )
    assert "few sectors" in first.fix
    assert "ncu-latency" not in [f.rule for f in others]


def test_an_l1_that_few_sms_use(tmp_path: Path) -> None:
    """Its throughput is of the time in which it works: one block of 80 SMs binds nothing."""
    lit = {SM: 1.0, MEMORY: 2.0, L1: 97.0, "launch__waves_per_multiprocessor": 0.01}
    run = profiled(tmp_path, lit, blocks=1)
    assert "ncu-small-grid" in [f.rule for f in sightline.findings(run) if not f.abstained]


def test_kernels_that_the_same_unit_binds_lead_together(tmp_path: Path) -> None:
    """45 and 30 % of the time: neither is most of it, both are."""
    dram = f"gpu__dram_throughput.{ENDING}"
    parts = {"a(int *)": 450_000.0, "b(int *)": 300_000.0, "c(int *)": 250_000.0}
    kernels = [
        Kernel(
            name=name,
            grid=(1600, 1, 1),
            metrics={
                SM: 50.0 if name != "c(int *)" else 70.0,
                MEMORY: 75.0 if name != "c(int *)" else 30.0,
                dram: 75.0 if name != "c(int *)" else 30.0,
                TIME: time,
            },
        )
        for name, time in parts.items()
    ]
    first = sightline.findings(opened(tmp_path, report(kernels)))[0]
    assert (first.rule, first.where["kernel"]) == (RULE, "a(int *)")
    assert (
        "the same holds for 1 other kernel: 75.0 % of the profiled time together" in first.evidence
    )


def test_as_many_loads_as_the_l1_takes_in(tmp_path: Path) -> None:
    """A walk through pointers: its data and its tags are not what keeps the L1 busy."""
    requests = f"l1tex__lsuin_requests.{ENDING}"
    data = f"l1tex__data_pipe_lsu_wavefronts.{ENDING}"
    busy = {SM: 90.3, MEMORY: 90.3, L1: 95.3, requests: 90.3, data: 51.8}
    run = profiled(tmp_path, busy | {"launch__waves_per_multiprocessor": 4.0})
    found = next(f for f in sightline.findings(run) if f.rule == RULE)
    assert "90.3 % of the load and store instructions that it can take" in found.summary
    assert "fewer loads and stores" in (found.fix or "")


@pytest.mark.parametrize(
    ("stage", "asked", "fix"),
    [
        (41.0, 59.8, "fewer loads and stores"),
        (79.0, 59.8, "touches few sectors"),
        (10.0, 13.0, "touches few sectors"),
    ],
)
def test_loads_that_are_answered_at_once_are_too_many(
    tmp_path: Path, stage: float, asked: float, fix: str
) -> None:
    """All threads of a warp read the same word: there is nothing to coalesce."""
    data, taken = (
        f"l1tex__{name}.{ENDING}" for name in ("data_pipe_lsu_wavefronts", "lsuin_requests")
    )
    lit = {SM: 60.1, MEMORY: max(60.0, stage), L1: 99.5, data: stage, taken: asked}
    run = profiled(tmp_path, lit | {"launch__waves_per_multiprocessor": 163.0})
    first = next(f for f in sightline.findings(run) if f.rule == RULE)
    assert fix in first.fix


def test_a_librarys_kernel_is_tuned_by_its_call(tmp_path: Path) -> None:
    kernel = Kernel(name="ampere_sgemm_64x64_nn", grid=(1600, 1, 1), metrics={**METRICS, TIME: 1e5})
    run = opened(tmp_path, report([kernel]))
    first = next(f for f in sightline.findings(run) if f.rule == RULE)
    assert first.fix.startswith("this is cuBLAS's code")


def test_warps_that_a_blocks_size_keeps_away(tmp_path: Path) -> None:
    """Blocks of two warps: 16 of them are all that an SM takes, and they are there."""
    found = find_small_products(tmp_path, registers=32.0)
    assert found.rule == RULE
    assert "32 of 48 warps fit an SM (66.7 %), limited by blocks" in found.fix
    assert "use larger blocks; or give that unit less work" in found.fix
    assert "several of them in one block" in found.fix and "cuBLAS computes" not in found.fix
    # Registers that keep warps away hold what need not be loaded again.
    assert "more warps" not in find_small_products(tmp_path / "registers", registers=96.0).fix


def find_small_products(folder: Path, registers: float) -> Finding:
    small = Kernel(
        name="kernel_sgemm_m56_n9_k9(float *)",
        grid=(60_000, 1, 1),
        block=(64, 1, 1),
        metrics={
            SM: 21.0, MEMORY: 62.0, L1: 62.0, ACHIEVED: 63.6,
            "launch__occupancy_limit_shared_mem": 32.0,
            "launch__waves_per_multiprocessor": 100.0, "launch__block_size": 64.0,
            "launch__registers_per_thread": registers, "launch__shared_mem_per_block": 0.0,
            "device__attribute_max_warps_per_multiprocessor": 48.0,
            "device__attribute_max_blocks_per_multiprocessor": 16.0,
        },
    )  # fmt: skip
    return sightline.findings(opened(folder, report([small])))[0]


def test_warps_that_are_not_there_though_they_would_fit(tmp_path: Path) -> None:
    few = METRICS | {SM: 20.0, TENSOR: 5.0, L1: 62.0, MEMORY: 62.0}
    few[ACHIEVED] = 20.0
    found = next(f for f in sightline.findings(profiled(tmp_path, few)) if f.rule == RULE)
    assert "more warps" not in found.fix
