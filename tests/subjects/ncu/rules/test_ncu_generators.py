"""ncu-generators: a kernel that only sets up generators' states."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from support.profiled import MEMORY, SM, TIME, opened, with_code
from support.rules import assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-generators"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
LIT = {SM: 25.0, MEMORY: 8.0, DRAM: 5.0, "launch__waves_per_multiprocessor": 4.0}
SETUP, DRAW = "initRNG(curandStateXORWOW *, unsigned int)", "draw(float *, curandStateXORWOW *)"


def run_of(folder: Path, *kernels: tuple[str, float]) -> Run:
    made = [Kernel(name=n, grid=(1600, 1, 1), metrics={**LIT, TIME: t}) for n, t in kernels]
    return opened(folder, report(made))


def test_ten_times_the_kernel_that_draws(tmp_path: Path) -> None:
    """Device memory is needed for 5 % of its 1 ms, which remain. That it waits is no second one."""
    run = run_of(tmp_path, (SETUP, 1_000_000.0), (DRAW, 100_000.0))
    assert_speaks(
        run,
        RULE,
        cost_ns=950_000,
        gain_ns=950_000,
        evidence=["busiest unit is the SM, at 25.0 % of peak", "device memory is needed for 5.0 %"],
        fix="Philox",
        severity="warning",
        confidence="medium",
    )
    said = [f for f in sightline.findings(run) if not f.abstained and f.where["kernel"] == SETUP]
    assert [f.rule for f in said] == [RULE]


def test_kernels_that_draw(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, (DRAW, 100_000.0)), RULE)


def test_a_kernel_that_draws_as_well_keeps_its_own_pipes_time(tmp_path: Path) -> None:
    """Most samples are in cuRAND's header; a fifth of the time doubles are computed."""
    lit = {**LIT, "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed": 20.0}
    run = opened(tmp_path, with_code(file="curand_kernel.h", **lit, **{TIME: 1_000_000.0}))
    assert_speaks(
        run,
        RULE,
        cost_ns=800_000,
        gain_ns=800_000,
        evidence=["the fp64 pipe is needed for 20.0 %", "curand_kernel.h"],
        fix="Philox",
    )
