"""Operations with their sizes against NVIDIA's disassembler, for instructions of every size."""

from __future__ import annotations

import re

import pytest

from sightline.formats._cubin import read_cubin
from sightline.formats.nvidia._sass import read_operation
from support import places

RECORDED = places.RECORDED / "sass"
NAMES = sorted(p.stem for p in RECORDED.glob("*.cubin"))
# The files of few instructions.
LEAST = {"narrow_120a": 8, "narrow_89": 5, "tensor_100a": 7, "wide_100": 8}
ACCESSES = {"LDG", "STG", "LD", "ST", "LDL", "STL", "LDS", "STS", "LDGSTS"}
PRODUCTS = {"HMMA", "IMMA", "DMMA", "HGMMA", "QGMMA", "QMMA", "OMMA"}
WIDTHS = {"U8", "S8", "U16", "S16", "64", "128", "256"}
# DMMA has had two spellings of its smallest shape.
SPELLED = {"884": "8x8x4"}


def expect(listed: str) -> str:
    """What nvdisasm says of an instruction, as far as it says how much that does."""
    guard, _, operation = listed.rpartition(" ")
    return ("@" if guard else "") + expect_size(operation)


def expect_size(listed: str) -> str:
    name, *modifiers = listed.split(".")
    if name in ACCESSES:
        # .U.128 of Turing is a load that may not be aligned: the width is the last that fits.
        return ".".join([name, *[m for m in modifiers if m in WIDTHS]])
    if name not in PRODUCTS:
        return name
    if "SP" in modifiers:
        return f"{name}.SP"
    modifiers = [m for m in modifiers if m != "SF"]  # scaled by blocks: as much work
    if name in ("QMMA", "OMMA"):
        return f"{name}.{modifiers[0]}.{modifiers[1]}"
    shape = SPELLED.get(modifiers[0], modifiers[0])
    if name == "DMMA":
        return f"DMMA.{shape}"
    if name == "IMMA":
        return f"IMMA.{shape}.S{modifiers[1][1:]}"
    types = [m for m in modifiers[1:] if m in ("F16", "F32", "BF16", "TF32")]
    return ".".join([name, shape, *types])


@pytest.mark.parametrize("name", NAMES)
def test_operations_and_sizes_are_nvdisasms(name: str) -> None:
    cubin = read_cubin((RECORDED / f"{name}.cubin").read_bytes())
    (function,) = cubin.code
    met = set()
    for line in (RECORDED / f"{name}.tsv").read_text().splitlines():
        offset, listed = line.split("\t")
        word = cubin.read_instruction(function, int(offset))
        assert word is not None
        found = read_operation(*word, cubin.capability)
        assert found in (expect(listed), None), (offset, listed)
        if re.match(r"(@\S+ )?(LD|ST)|.*MMA|(@\S+ )?([FDH](ADD|MUL|FMA)|EXIT)", listed):
            assert found is not None, listed
            met.add(found)
    # Widths, shapes and types: the files were made to have all.
    assert len(met) > LEAST.get(name, 15)


def test_shapes_that_were_met() -> None:
    """Every matrix product that flops.py counts of these architectures is in the files."""
    met = {
        expect(line.split("\t")[1])
        for name in NAMES
        for line in (RECORDED / f"{name}.tsv").read_text().splitlines()
    }
    for asked in (
        "HMMA.1688.F16", "HMMA.16816.F32", "HMMA.16816.F32.BF16", "HMMA.1684.F32.TF32",
        "HMMA.SP", "IMMA.8816.S8", "IMMA.8832.S4", "IMMA.16816.S8", "IMMA.16832.S8",
        "IMMA.16864.S4", "IMMA.SP", "DMMA.8x8x4", "DMMA.16x8x4", "DMMA.16x8x8", "DMMA.16x8x16",
        "HGMMA.64x8x16.F32", "HGMMA.64x256x16.F16", "HGMMA.64x128x16.F32.BF16",
        "HGMMA.64x64x8.F32.TF32", "QGMMA.64x64x32.F16", "QGMMA.64x256x32.F32", "HGMMA.SP",
        "@FMUL", "@LDS", "LDG.128", "LDG.S8", "STG.U16", "LDGSTS.64", "LD.128", "ST.64", "LDL.U8",
        "STS.128", "LDG.256", "STG.256", "FADD2", "FMUL2", "FFMA2", "QMMA.16832.F32",
        "QMMA.16816.F16", "QMMA.SP", "OMMA.16864.F32", "OMMA.SP", "UTCHMMA", "UTCQMMA", "UTCIMMA",
        "UTCOMMA",
    ):  # fmt: skip
        assert asked in met


def test_what_is_not_known_has_no_size() -> None:
    assert read_operation(0x1FF, 0, 80) is None
    assert read_operation(0x7981, 7 << 9, 80) == "LDG"  # no width has this number
    assert read_operation(0x723C, 1 << 14 | 1 << 11, 80) == "HMMA"  # nor a shape
    assert read_operation(0x7236, 0, 70) is None  # Volta's HMMA is another one
    assert read_operation(0x7981, 4 << 9, 60) is None
    assert read_operation(0x797E, 0, 100) == "LDG"  # 32 bytes have another number there
    # A word means an addition of integers on one Blackwell, and on the other it was never met.
    assert [read_operation(0x7235, 0, c) for c in (90, 100, 120)] == ["HFMA2", None, "IADD"]
    assert read_operation(0x75EA, 2 << 8, 100) is None
