"""Several rules about profiled kernels asked at once."""

from __future__ import annotations

from pathlib import Path

from sightline import findings
from support.profiled import FULL_SM, ISSUE, MEMORY, SM, profiled


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
