"""ncu-no-tensor-cores: products of half precision on the FMA pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.profiled import L1, MEMORY, SM, TIME, opened, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, report

RULE = "ncu-no-tensor-cores"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
COUNTED = {"HFMA2.MMA": 400, "LDS.U16": 200, "IADD3": 400}


def of_kernel(folder: Path, counted: dict[str, int], name: str = "hgemm(__half *)") -> Run:
    light = {SM: 80.0, MEMORY: 80.0, L1: 80.0, TIME: 10_000.0}
    kernel = Kernel(name=name, metrics=light | {OPCODES: (1000.0, counted)})
    return opened(folder, report([kernel]))


def test_products_of_16_bits(tmp_path: Path) -> None:
    """A sixteenth of the SM's work is left, and a quarter of the L1's: 20 of 80 %."""
    assert_speaks(
        of_kernel(tmp_path, COUNTED),
        RULE,
        cost_ns=7500,
        gain_ns=7500,
        evidence=["40.0 % of the instructions multiply and add numbers of 16 bits"],
        fix="wmma",
        severity="warning",
    )


def test_products_of_32_bits_of_what_was_16(tmp_path: Path) -> None:
    converted = {"FFMA": 300, "HADD2.F32": 300, "LDG.E.U16": 300, "IADD3": 100}
    evidence = ["30.0 % of the instructions"]
    run = of_kernel(tmp_path, converted)
    assert_speaks(run, RULE, cost_ns=7500, gain_ns=7500, evidence=evidence, fix="CUTLASS")


@pytest.mark.parametrize(
    ("counted", "name"),
    [
        (COUNTED | {"HMMA.16816.F32": 1}, "hgemm"),
        (COUNTED | {"HFMA2.MMA": 60}, "hgemm"),
        (COUNTED | {"LDS.U16": 40}, "hgemm"),
        ({"FFMA": 400, "LDS": 200, "IADD3": 400}, "sgemm"),
        (COUNTED, "scale"),
    ],
    ids=["tensor cores", "few products", "few loads", "32 bits", "no matrix product"],
)
def test_silence(tmp_path: Path, counted: dict[str, int], name: str) -> None:
    assert_silent(of_kernel(tmp_path, counted, name), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section InstructionStats")
