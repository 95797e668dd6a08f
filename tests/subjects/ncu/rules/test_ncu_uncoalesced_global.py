"""ncu-uncoalesced-global: sectors of global accesses beyond the ideal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.subjects.ncu.rules._uncoalesced import ACCESS_BITS
from support.profiled import CODE, DRAM, L2, SM, TIME, opened, profiled, with_code
from support.rules import answers, assert_abstains, assert_silent, assert_speaks

RULE = "ncu-uncoalesced-global"
ALL = "memory_l2_theoretical_sectors_global"
IDEAL = f"{ALL}_ideal"
METRICS = {ALL: 100.0, IDEAL: 60.0, L2: 50.0}


def test_40_of_100_sectors(tmp_path: Path) -> None:
    """40 % of a unit that is half in use."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=2000,
        gain_ns=2000,
        evidence=["40.0 % of the sectors", "40 of 100 sectors"],
        fix="neighboring addresses",
        severity="warning",
        confidence="low",
    )


@pytest.mark.parametrize("change", [{IDEAL: 96.0}, {ALL: 0.0, IDEAL: 0.0}], ids=["4 %", "none"])
def test_silence(tmp_path: Path, change: dict[str, Any]) -> None:
    assert_silent(profiled(tmp_path, METRICS | change), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}), RULE, "--section SourceCounters")


def test_from_5_percent_on_without_throughputs(tmp_path: Path) -> None:
    assert_speaks(
        profiled(tmp_path, {ALL: 100.0, IDEAL: 95.0}),
        RULE,
        cost_ns=500,
        gain_ns=500,
        evidence=["5 of 100 sectors"],
        fix="neighboring addresses",
    )


@pytest.mark.parametrize(
    ("lines", "place"), [(True, "src/scale.cu:12"), (False, "FADD at byte 16")]
)
def test_where_most_of_them_are(tmp_path: Path, lines: bool, place: str) -> None:
    """The first instruction moves 50 for 40, the second 50 for 20."""
    metrics = {
        ALL: (100.0, {CODE: 50.0, CODE + 16: 50.0}),
        IDEAL: (60.0, {CODE: 40.0, CODE + 16: 20.0}),
        TIME: 10_000.0,
    }
    assert_speaks(
        opened(tmp_path, with_code(lines=lines, **metrics)),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=[f"most by {place}"],
        fix="neighboring addresses",
    )


def test_of_instructions_with_as_much_the_first_in_the_code(tmp_path: Path) -> None:
    metrics = {
        ALL: (100.0, {CODE + 16: 50.0, CODE: 50.0}),
        IDEAL: (60.0, {CODE + 16: 30.0, CODE: 30.0}),
        TIME: 10_000.0,
    }
    assert_speaks(
        opened(tmp_path, with_code(lines=False, **metrics)),
        RULE,
        cost_ns=4000,
        gain_ns=4000,
        evidence=["most by LDG at byte 0"],
        fix="neighboring addresses",
    )


HIT_RATE = "lts__t_sector_hit_rate.pct"


@pytest.mark.parametrize(
    ("hits", "gain", "unit"),
    [(0.0, 4000, "device memory"), (25.0, 3000, "device memory"), (90.0, 400, "the L2")],
)
def test_the_unit_in_which_it_is_most_felt(
    tmp_path: Path, hits: float, gain: int, unit: str
) -> None:
    """40 % of the sectors, as far as they miss the L2, of device memory, which binds the kernel."""
    assert_speaks(
        profiled(tmp_path, METRICS | {DRAM: 80.0, HIT_RATE: hits}),
        RULE,
        cost_ns=gain,
        gain_ns=gain,
        evidence=[f"most felt in {unit}"],
        fix="neighboring addresses",
    )


def test_no_shorter_than_what_the_next_unit_needs(tmp_path: Path) -> None:
    """40 % of an L2 at 80 % would be 32 %, but the SM is busy for 85 % of the time."""
    assert_speaks(
        profiled(tmp_path, METRICS | {L2: 80.0, SM: 85.0}),
        RULE,
        cost_ns=1500,
        gain_ns=1500,
        evidence=["the SM is needed for 85.0 %"],
        fix="neighboring addresses",
    )


def test_what_each_unit_moved_beyond_what_is_needed(tmp_path: Path) -> None:
    """60 sectors are needed: the L2 moved 75 of 100, memory 60; stores were put together before."""
    counted = {
        "lts__t_sectors_srcunit_tex.sum": 75.0,
        "dram__sectors_read.sum": 20.0,
        "dram__sectors_write.sum": 40.0,
    }
    assert_speaks(
        profiled(tmp_path, METRICS | {L2: 90.0, DRAM: 30.0} | counted),
        RULE,
        cost_ns=2000,
        gain_ns=2000,
        evidence=["the L2 binds it now, at 90.0 %", "then still that, at 72.0 %"],
        fix="neighboring addresses",
    )


@pytest.mark.parametrize(("bits", "is_told"), [(2.0, True), (32.0, False), (0.0, False)])
def test_bytes_are_loaded_in_words(tmp_path: Path, bits: float, is_told: bool) -> None:
    """Of 40 sectors in excess the second instruction moves 30: single bytes, or floats."""
    metrics = {
        ALL: (100.0, {CODE: 50.0, CODE + 16: 50.0}),
        IDEAL: (60.0, {CODE: 40.0, CODE + 16: 20.0}),
        ACCESS_BITS: (34.0, {CODE: 32.0, CODE + 16: bits}),
        TIME: 10_000.0,
    }
    (found,) = answers(opened(tmp_path, with_code(lines=False, **metrics)), RULE)
    assert ("load words (uchar4)" in found.fix) is is_told
    assert "neighboring addresses" in found.fix
