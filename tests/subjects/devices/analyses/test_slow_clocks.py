"""slow_clocks: kernels that ran at less than 95 % of the device's clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.clocks import MS, ten_kernels
from support.traces import kernel, opened


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        (None, "clock-throttled"),
        (0x1, "clock-throttled"),
        (0x4, "power-capped"),
        (0x80, "power-capped"),
        (0x20, "thermal"),
        (0x44, "power-capped"),
    ],
)
def test_half_of_the_clock(tmp_path: Path, reasons: int | None, cause: str) -> None:
    """Each kernel of 2 ms would take 1 ms."""
    answer = rows(
        ten_kernels(tmp_path, 990, reasons),
        "slow_clocks",
        "clock_mhz",
        "best_mhz",
        "reasons",
        "cause",
        "lost_ns",
    )
    assert answer == [(990.0, 1980.0, reasons or 0, cause, MS)] * 10


@pytest.mark.parametrize("mhz", [1_881, 1_881_000_000])
def test_95_percent_in_mhz_or_hz(tmp_path: Path, mhz: int) -> None:
    assert ten_kernels(tmp_path, mhz).ask("slow_clocks").is_empty()


def test_without_samples(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="slow_clocks"):
        opened(tmp_path / "a", [kernel("k", 0, 10)]).ask("slow_clocks")
    with pytest.raises(MissingDataError, match="SM clock"):
        ten_kernels(tmp_path / "b", None, 0x4).ask("slow_clocks")
