"""ncu-rereads: an L2 that gives out the same bytes again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.profiled import DRAM, L1, L2, MEMORY, SM, profiled
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-rereads"
MB = 10**6
UNITS = {SM: 30.0, MEMORY: 90.0, L1: 45.0, L2: 90.0, DRAM: 5.0}
READS = {
    "l1tex__m_xbar2l1tex_read_bytes.sum": 1600.0 * MB,
    "dram__bytes_read.sum": 20.0 * MB,
    "lts__t_sectors.sum": 1600.0 * MB / 32,
}


def test_each_byte_eighty_times(tmp_path: Path) -> None:
    """Without the repeats the L1 is next, at half of what the L2 is at today."""
    assert_speaks(
        profiled(tmp_path, UNITS | READS),
        RULE,
        cost_ns=5000,
        gain_ns=5000,
        evidence=["gives the SMs 1.600 GB, 80 times the 20.00 MB that device memory gives it"],
        fix="larger tiles",
    )


def test_what_fits_into_the_l2_may_have_lain_there(tmp_path: Path) -> None:
    """No byte comes from device memory: the 6 MiB of an A10G's L2 may have been there."""
    (found,) = answers(profiled(tmp_path, UNITS | READS | {"dram__bytes_read.sum": 0.0}), RULE)
    assert "254 times the 6.291 MB that it can hold" in found.summary


def test_that_memory_binds_it_is_seen_as_this(tmp_path: Path) -> None:
    run = profiled(tmp_path, UNITS | READS)
    said = [f for f in run.findings() if not f.abstained]  # type: ignore[attr-defined]
    assert said[0].rule == RULE
    assert "also visible as: bound by memory bandwidth" in said[0].evidence


@pytest.mark.parametrize(
    "change",
    [
        {L2: 79.0},
        {DRAM: 95.0},
        {"dram__bytes_read.sum": 500.0 * MB},
        {"lts__t_sectors.sum": 3200.0 * MB / 32},
    ],
    ids=["not at its limit", "memory is busier", "three times", "stores fill it"],
)
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, UNITS | READS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, UNITS), RULE, "--set full")
