"""ncu-bank-conflicts: wavefronts of shared memory that only conflicts cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, SM, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks

RULE = "ncu-bank-conflicts"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
METRICS = {
    CONFLICTS.format("ld"): 30.0,
    WAVEFRONTS.format("ld"): 40.0,
    WAVEFRONTS.format("st"): 20.0,
    L1: 50.0,
}


def test_30_of_40_wavefronts_of_loads(tmp_path: Path) -> None:
    """Half of all 60 wavefronts, in a unit that is half in use."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=2500,
        gain_ns=2500,
        evidence=["75.0 % of the wavefronts of loads"],
        fix="swizzle",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize(
    "change",
    [{CONFLICTS.format("ld"): 3.9}, {CONFLICTS.format("ld"): 0.0}],
    ids=["9.75 %", "no conflicts"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section MemoryWorkloadAnalysis_Tables")


def test_from_10_percent_on(tmp_path: Path) -> None:
    """4 of 60 wavefronts are 6.67 %, half of which count."""
    assert_speaks(
        profiled(tmp_path, METRICS | {CONFLICTS.format("ld"): 4.0}),
        RULE,
        cost_ns=333,
        gain_ns=333,
        evidence=["10.0 % of the wavefronts of loads"],
        fix="swizzle",
        severity="info",
    )


def test_stores_without_the_units_throughput(tmp_path: Path) -> None:
    metrics = {CONFLICTS.format("st"): 30.0, WAVEFRONTS.format("st"): 40.0}
    assert_speaks(
        profiled(tmp_path, metrics),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["75.0 % of the wavefronts of stores"],
        fix="swizzle",
    )


STAGE = f"{WAVEFRONTS}.pct_of_peak_sustained_elapsed"


def test_no_shorter_than_what_the_next_unit_needs(tmp_path: Path) -> None:
    """Half of an L1 at 80 % would be 40 %, but device memory is at 75 %: 75 / 80 are left."""
    assert_speaks(
        profiled(tmp_path, METRICS | {L1: 80.0, SM: 30.0, L2: 40.0, DRAM: 75.0}),
        RULE,
        cost_ns=625,
        gain_ns=625,
        evidence=["the L1 binds it now, at 80.0 %", "then device memory, at 75.0 %"],
        fix="swizzle",
    )


def test_no_shorter_than_what_the_unit_itself_still_needs(tmp_path: Path) -> None:
    """Half of an L1 that is always busy goes; half of the time it is needed for the rest."""
    assert_speaks(
        profiled(tmp_path, METRICS | {L1: 100.0, SM: 20.0}),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["then still that, at 50.0 %"],
        fix="swizzle",
        severity="warning",
    )


def test_by_the_cycles_in_which_the_accesses_take_the_data_stage(tmp_path: Path) -> None:
    """75 % of the loads' wavefronts, which take 12 % of the cycles; the L1 is busy with others."""
    assert_speaks(
        profiled(tmp_path, METRICS | {L1: 90.0, STAGE.format("ld"): 12.0}),
        RULE,
        cost_ns=1000,
        gain_ns=1000,
        evidence=["then still that, at 81.0 %"],
        fix="swizzle",
    )
