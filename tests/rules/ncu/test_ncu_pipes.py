"""The two rules about execution pipes, both ways."""

from __future__ import annotations

import pytest

import sightline
from sightline import findings
from synth_ncu import Kernel, report

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
ELAPSED = "avg.pct_of_peak_sustained_elapsed"
ACTIVE = "avg.pct_of_peak_sustained_active"


def found(tmp_path, rule: str, metrics: dict[str, float]):
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(report([Kernel(metrics={"gpu__time_duration.sum": 1000.0} | metrics)]))
    return [f for f in findings(sightline.open(str(path))) if f.rule == rule and not f.abstained]


@pytest.mark.parametrize(("busy", "speaks"), [(79.9, False), (80.0, True)])
def test_the_busiest_pipe_is_named_and_no_gain_is_claimed(busy, speaks, tmp_path):
    metrics = {
        f"sm__pipe_fp64_cycles_active.{ELAPSED}": busy,
        f"sm__pipe_fma_cycles_active.{ELAPSED}": 12.0,
        f"sm__inst_executed_pipe_lsu.{ELAPSED}": 40.0,
    }
    hits = found(tmp_path, "ncu-pipe-limit", metrics)
    assert len(hits) == speaks
    if speaks:
        (hit,) = hits
        assert hit.where["subject"] == "fp64"
        assert "fp64 pipe is in use for 80.0 %" in hit.summary
        assert (hit.gain_ns, hit.severity) == (0, "info")


SLOW = {
    SM: 90.0,
    f"sm__instruction_throughput.{ACTIVE}": 85.0,
    f"sm__inst_issued.{ACTIVE}": 15.0,
    f"sm__inst_executed_pipe_fp64.{ACTIVE}": 85.0,
    f"sm__inst_executed_pipe_alu.{ACTIVE}": 5.0,
    f"sm__inst_executed_pipe_fma.{ACTIVE}": 0.0,
}


def test_a_slow_pipe_with_its_estimate(tmp_path):
    (hit,) = found(tmp_path, "ncu-slow-pipe", SLOW)
    # Mean of 85, 5 and 0 is 30: (85 − 30) / 85 of the SM's 90 %.
    assert hit.where["estimate_pct"] == pytest.approx(100 * 55 / 85 * 0.9)
    assert hit.gain_ns == round(1000 * 55 / 85 * 0.9)


@pytest.mark.parametrize(
    "change",
    [
        {f"sm__instruction_throughput.{ACTIVE}": 79.0},
        {f"sm__inst_issued.{ACTIVE}": 20.0},
        {
            f"sm__inst_executed_pipe_alu.{ACTIVE}": 80.0,
            f"sm__inst_executed_pipe_fma.{ACTIVE}": 80.0,
        },
    ],
)
def test_silence_where_one_condition_is_not_met(change, tmp_path):
    assert found(tmp_path, "ncu-slow-pipe", SLOW | change) == []
