"""roofline: where a kernel stands under its ceilings."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import profiled

FMA = "smsp__sass_thread_inst_executed_op_{}fma_pred_on.sum"
PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"


def test_half_of_the_fp64_peak(tmp_path: Path) -> None:
    """400,000 multiply-adds in 10 µs, of 80 a cycle at 1 GHz; each is two operations."""
    run = profiled(
        tmp_path,
        {
            FMA.format("d"): 400_000.0,
            PEAK.format("d"): 80.0,
            "smsp__cycles_elapsed.avg.per_second": 1e9,
        },
    )
    fields = "precision", "flop", "flop_per_s", "peak_flop_per_s", "peak_source", "of_peak_pct"
    assert rows(run, "roofline", *fields) == [
        ("fp64", 800_000.0, pytest.approx(8e10), 1.6e11, "counters", pytest.approx(50.0))
    ]


def test_two_precisions_have_a_row_each(tmp_path: Path) -> None:
    run = profiled(tmp_path, {FMA.format("d"): 100.0, FMA.format("f"): 300.0})
    assert rows(run, "roofline", "precision", "flop") == [("fp64", 200.0), ("fp32", 600.0)]


def test_no_arithmetic_counted(tmp_path: Path) -> None:
    assert rows(profiled(tmp_path, {}), "roofline", "precision", "flop") == [(None, None)]
