"""redundant-memset: memory is filled, and nothing runs beside it."""

from __future__ import annotations

from pathlib import Path

from support.copies import exposed_for, hidden_for
from support.rules import assert_silent, assert_speaks

RULE, NAME = "redundant-memset", "Memset (Device)"


def test_400_of_1000_us(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memset, 1.000 MB in 400.0 µs (2.5 GB/s)", "100"],
        fix="torch.empty",
        severity="critical",
        confidence="high",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path / "a", 49, NAME), RULE)
    assert_speaks(
        exposed_for(tmp_path / "b", 50, NAME),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="torch.empty",
        severity="warning",
    )


def test_hidden_behind_a_kernel(tmp_path: Path) -> None:
    assert_silent(hidden_for(tmp_path, 400, NAME), RULE)
