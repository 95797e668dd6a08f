"""tensor_use: how busy the tensor cores are, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import profiled

PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"


@pytest.mark.parametrize(
    ("pct", "level"),
    [(0.0, "none"), (9.9, "low"), (10.0, "partial"), (30.0, "good"), (50.0, "dominant")],
)
def test_levels(tmp_path: Path, pct: float, level: str) -> None:
    run = profiled(tmp_path, {PIPE: pct})
    assert rows(run, "tensor_use", "pipe_pct", "level", "precision") == [(pct, level, None)]


def test_a_quarter_of_the_instructions(tmp_path: Path) -> None:
    """25 products of 16×8×16, two operations each, in 10 µs."""
    run = profiled(tmp_path, {OPCODES: (100.0, {"HMMA.16816.F32.BF16": 25, "FFMA": 75})})
    assert rows(run, "tensor_use", "instruction_pct", "precision", "flop_per_s", "level") == [
        (25.0, "bf16", pytest.approx(25 * 2 * 16 * 8 * 16 / 10e-6), None)
    ]
