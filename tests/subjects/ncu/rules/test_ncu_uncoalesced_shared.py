"""ncu-uncoalesced-shared: wavefronts of shared accesses beyond the ideal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.subjects.ncu.rules._uncoalesced import ACCESS_BITS
from support.profiled import CODE, L1, TIME, opened, profiled, with_code
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-uncoalesced-shared"
ALL = "memory_l1_wavefronts_shared"
IDEAL = f"{ALL}_ideal"
METRICS = {ALL: 100.0, IDEAL: 60.0, L1: 50.0}


def test_40_of_100_wavefronts(tmp_path: Path) -> None:
    """40 % of a unit that is half in use."""
    assert_speaks(
        profiled(tmp_path, METRICS),
        RULE,
        cost_ns=2000,
        gain_ns=2000,
        evidence=["40.0 % of the wavefronts", "40 of 100 wavefronts"],
        fix="layout or width",
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
        evidence=["5 of 100 wavefronts"],
        fix="layout or width",
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
        fix="layout or width",
    )


def test_a_librarys_code_is_not_its_callers(tmp_path: Path) -> None:
    """The advice is what a caller can do, and it is not a warning."""
    name = "void cutlass::Kernel<cutlass_80_simt_sgemm_128x256_8x4_tt_align1>(T1::Params)"
    kernel = Kernel(name=name, grid=(1600, 1, 1), metrics={TIME: 10_000.0, **METRICS})
    assert_speaks(
        opened(tmp_path, report([kernel])),
        RULE,
        cost_ns=2000,
        gain_ns=2000,
        evidence=["40.0 % of the wavefronts"],
        fix="this is cuBLAS's code: choose another of its kernels",
        severity="info",
    )


def test_no_words_to_load_from_shared_memory(tmp_path: Path) -> None:
    """Single bytes make most of the excess: a tile in shared memory is what there is already."""
    metrics = {
        ALL: (100.0, {CODE: 50.0, CODE + 16: 50.0}),
        IDEAL: (60.0, {CODE: 40.0, CODE + 16: 20.0}),
        ACCESS_BITS: (34.0, {CODE: 32.0, CODE + 16: 8.0}),
        TIME: 10_000.0,
    }
    (found,) = answers(opened(tmp_path, with_code(lines=False, **metrics)), RULE)
    assert "load words" not in found.fix
