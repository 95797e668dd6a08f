"""GPU binaries of ours against NVIDIA's disassembler: every instruction's line and operation."""

from __future__ import annotations

import pytest

from sightline.formats._cubin import read_cubin, read_opcode
from support import places

RECORDED = places.RECORDED / "cubin"
NAMES = sorted(p.stem for p in RECORDED.glob("*.cubin"))


def read_listing(name: str) -> list[tuple[str, int, str, str, int]]:
    """Function, offset, operation, file and line of each instruction, as nvdisasm has them."""
    lines = (RECORDED / f"{name}.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    return [(f, int(offset), op, file, int(number)) for f, offset, op, file, number in rows]


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_nvdisasms(name: str) -> None:
    cubin = read_cubin((RECORDED / f"{name}.cubin").read_bytes())
    assert cubin.note is None
    listing = read_listing(name)
    assert len(listing) > 500
    for function, offset, _, file, line in listing:
        assert cubin.find_line(function, offset) == (file, line), (function, offset)
    files = {file for *_, file, _ in listing}
    assert files == {"/src/kernels.cu", "/src/helper.cuh"}  # what is inlined has its own


@pytest.mark.parametrize("name", NAMES)
def test_operations_are_nvdisasms_or_not_known(name: str) -> None:
    cubin = read_cubin((RECORDED / f"{name}.cubin").read_bytes())
    assert cubin.capability == int(name.removeprefix("kernels_"))
    known = 0
    for function, offset, operation, *_ in read_listing(name):
        word = cubin.read_instruction(function, offset)
        assert word is not None
        found = read_opcode(word[0], cubin.capability, word[1])
        assert found in (operation, None), (function, offset)
        known += found is not None
    assert known > 490


def test_architectures_that_nobody_has_met_are_not_guessed() -> None:
    assert read_opcode(0x7981, 90) == "LDG"
    assert [read_opcode(0x7981, other) for other in (0, 61, 130, 255)] == [None] * 4


def test_capability_of_the_older_abi() -> None:
    """Before CUDA 13 the low byte of the flags says it (version 7 of the ABI)."""
    data = bytearray((RECORDED / "kernels_80.cubin").read_bytes())
    data[8] = 7
    data[0x30:0x34] = (0x560556).to_bytes(4, "little")
    assert read_cubin(bytes(data)).capability == 86


def test_places_outside_of_the_code() -> None:
    cubin = read_cubin((RECORDED / "kernels_90.cubin").read_bytes())
    assert cubin.find_line("no such function", 0) == (None, None)
    assert cubin.find_line("_Z5saxpyifPKfPf", -16) == (None, None)


@pytest.mark.parametrize("end", [0, 3, 64, 500, 4000, 17000])
def test_a_cubin_that_is_cut_off(end: int) -> None:
    cubin = read_cubin((RECORDED / "kernels_90.cubin").read_bytes()[:end])
    assert cubin.note is not None
    assert cubin.find_line("_Z5saxpyifPKfPf", 0) == (None, None)
