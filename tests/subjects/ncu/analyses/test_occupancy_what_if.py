"""occupancy_what_if: the nearest settings that change how many warps fit an SM."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.profiled import FULL_SM, profiled

FIELDS = "setting", "current", "value", "theoretical_pct", "change_pct", "limiter"


def test_settings_around_two_blocks_of_128_registers(tmp_path: Path) -> None:
    """16 of 48 warps: four for each scheduler, of 4,096 of its 16,384 registers.

    * up to 80 registers six warps fit a scheduler, 24 in all: three blocks
    * from 129 on it is three, 12 in all: one block
    * two blocks have 51,200 bytes of shared memory each
    * two blocks of 224 threads are 14 warps; of 288 only one fits, 9 warps
    """
    run = profiled(tmp_path, FULL_SM | {"launch__registers_per_thread": 128.0})
    third, sixth = pytest.approx(100 / 3), pytest.approx(100 / 6)
    assert rows(run, "occupancy_what_if", *FIELDS) == [
        ("registers", 128, 80, 50.0, sixth, "registers"),
        ("registers", 128, 129, sixth, pytest.approx(-100 / 6), "registers"),
        ("shared_bytes", 1024, 51_328, sixth, pytest.approx(-100 / 6), "shared_mem"),
        ("threads", 256, 224, pytest.approx(100 * 14 / 48), pytest.approx(-100 / 24), "registers"),
        ("threads", 256, 288, 18.75, pytest.approx(18.75 - 100 / 3), "registers"),
    ]
    assert rows(run, "occupancy", "theoretical_pct") == [(third,)]


def test_without_registers(tmp_path: Path) -> None:
    assert rows(profiled(tmp_path, {}), "occupancy_what_if") == []
