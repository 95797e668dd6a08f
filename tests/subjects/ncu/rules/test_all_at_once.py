"""Several rules about profiled kernels asked at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import findings
from sightline.core import registry
from support.profiled import DRAM, FULL_SM, ISSUE, L1, L2, LATENCY, MEMORY, SM, STALL, profiled


def test_a_busy_kernel_draws_no_alarm(tmp_path: Path) -> None:
    metrics = FULL_SM | {
        SM: 92.0,
        MEMORY: 40.0,
        ISSUE: 0.9,
        "launch__waves_per_multiprocessor": 4.0,
        "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 99.0,
    }
    assert [f.rule for f in findings(profiled(tmp_path, metrics)) if not f.abstained] == []


def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    abstained = {f.rule for f in findings(profiled(tmp_path, {})) if f.abstained}
    assert {"ncu-latency", "ncu-stall", "ncu-bank-conflicts"} <= abstained


# Both throughputs at 50 %, a third of the issue slots in use: all that follows gains half at most.
WAITING = FULL_SM | {SM: 50.0, MEMORY: 40.0, ISSUE: 0.3, LATENCY: 10.0}
WAVES = {"launch__waves_per_multiprocessor": 4.0}


def rules_of(folder: Path, metrics: dict[str, float]) -> list[str]:
    """What is said of a grid of whole waves."""
    return [f.rule for f in findings(profiled(folder, metrics, blocks=1920)) if not f.abstained]


def test_a_cause_takes_in_its_symptoms(tmp_path: Path) -> None:
    """16 of 64 warps fit by registers, three quarters are missing: half of the time goes."""
    metrics = WAITING | WAVES | {"launch__registers_per_thread": 160.0}
    found = [f for f in findings(profiled(tmp_path, metrics, blocks=1920)) if not f.abstained]
    assert [f.rule for f in found] == ["ncu-occupancy-limit"]
    assert found[0].evidence[-1] == "also visible as: low issue slot utilization, latency bound"


@pytest.mark.parametrize(
    ("stalled", "rule"), [(3.5, "ncu-stall"), (3.1, "ncu-stall"), (2.9, "ncu-issue-slots")]
)
def test_a_reason_that_takes_most_of_it_stands_for_it(
    tmp_path: Path, stalled: float, rule: str
) -> None:
    """35 % of a kernel of which 50 % are to be won: what to change is what the warps wait for."""
    metrics = WAITING | WAVES | {STALL.format("long_scoreboard"): stalled}
    assert rules_of(tmp_path, metrics) == [rule]


def test_a_cause_of_little_does_not_lead(tmp_path: Path) -> None:
    """36 of 48 warps fit: a quarter is missing, and over half is to be won."""
    launch = {"launch__registers_per_thread": 48.0, "launch__block_size": 384.0}
    waiting = WAITING | WAVES | {SM: 45.0}
    found = findings(profiled(tmp_path, waiting | launch, blocks=1920, threads=384))
    gains = [(f.rule, f.gain_ns) for f in found if not f.abstained]
    assert gains == [
        ("ncu-issue-slots", 5500),
        ("ncu-occupancy-limit", 2500),
    ]


def test_what_wastes_the_unit_at_its_limit_is_more_than_a_note(tmp_path: Path) -> None:
    """Device memory at 90 %, half of it for nothing: half of the time is left."""
    metrics = {
        SM: 20.0,
        MEMORY: 90.0,
        L1: 30.0,
        L2: 60.0,
        DRAM: 90.0,
        "lts__t_sector_hit_rate.pct": 0.0,
        "memory_l2_theoretical_sectors_global": 100.0,
        "memory_l2_theoretical_sectors_global_ideal": 50.0,
    }
    first = findings(profiled(tmp_path, metrics))[0]
    assert (first.rule, first.severity) == ("ncu-uncoalesced-global", "warning")
    assert first.gain_ns == 5000


def test_no_rule_explains_itself() -> None:
    rules = {module.RULE.name: module.RULE for _, module in registry.load_members("rules")}
    for rule in rules.values():
        above = list(rule.explains)
        for name in above:
            assert name != rule.name
            above += rules[name].explains
            assert len(above) <= len(rules), rule.name
