"""ncu-no-fma: products and sums that are computed apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-no-fma"
COUNT = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
PIPE = "sm__pipe_{}_cycles_active.avg.pct_of_peak_sustained_{}"
METRICS = {
    COUNT.format("fadd"): 50.0,
    COUNT.format("fmul"): 50.0,
    COUNT.format("ffma"): 0.0,
    PIPE.format("fma", "active"): 80.0,
}


def test_none_is_fused(tmp_path: Path) -> None:
    """Half of the instructions of a pipe that is in use for 80 %."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["100.0 % of the fp32 instructions are not fused"],
        fix="--fmad=true",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [
        {COUNT.format("fadd"): 10.0, COUNT.format("fmul"): 10.0, COUNT.format("ffma"): 80.0},
        {COUNT.format("fmul"): 0.0},
    ],
    ids=["20 % apart", "sums only"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section InstructionStats")


def test_rates_of_double_precision(tmp_path: Path) -> None:
    """A quarter of each: half are not fused, of which half could go, at 40 % of the pipe."""
    rates = {"dadd": 1.0, "dmul": 1.0, "dfma": 2.0}
    metrics = {f"{COUNT.format(op)}.per_cycle_elapsed": rate for op, rate in rates.items()}
    assert_speaks(
        profiled(tmp_path, metrics | {PIPE.format("fp64", "elapsed"): 40.0}),
        RULE,
        cost_ns=1000,
        gain_ns=1000,
        evidence=["50.0 % of the fp64 instructions"],
        fix="--fmad=true",
    )


def test_far_from_the_peak_nothing_is_gained(tmp_path: Path) -> None:
    """Without the pipe's figure its rate weighs: 2 MFLOP/s of an A10G are no arithmetic to save."""
    counts = {name: 1_000.0 for name in METRICS if name.startswith("smsp")}
    run = profiled(tmp_path, counts, time=1_000_000.0)
    assert_silent(run, RULE)
