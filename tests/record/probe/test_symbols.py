"""Symbols and first instructions, against binutils on libraries that nobody here wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from record.probe.programs import compile_c, find_cudart
from sightline.record.probe.elf import open_elf
from sightline.record.probe.functions import Function, list_functions
from sightline.record.probe.placement import find_place, is_emulated
from sightline.record.probe.targets import parse_release

HERE = (6, 18)


@pytest.fixture
def cudart() -> Path:
    found = find_cudart()
    if found is None:
        pytest.skip("there is no libcudart (pip install nvidia-cuda-runtime)")
    return found


def run(*command: str | Path) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def list_with_nm(library: Path) -> dict[str, int]:
    rows = (line.split() for line in run("nm", "-D", "--defined-only", library).splitlines())
    return {name.split("@")[0]: int(at, 16) for at, kind, name in rows if kind in "TtWi"}


def test_functions_of_the_real_runtime_are_where_nm_has_them(cudart: Path) -> None:
    expected = {n: at for n, at in list_with_nm(cudart).items() if n in list_functions()}
    assert len(expected) > 50
    with open_elf(str(cudart)) as elf:
        found = elf.find_symbols(list_functions())
        index = elf.index_symbols()
        for symbol in found:
            code = cudart.read_bytes()[symbol.offset : symbol.offset + 4]
            assert elf.content[symbol.offset : symbol.offset + 4] == code
    assert {symbol.name: symbol.address for symbol in found} == expected
    # Several names may have one place; the one that is found is one of them.
    for name, at in expected.items():
        exact = index.name_exact(at)
        assert exact == name or (exact is not None and list_with_nm(cudart)[exact] == at)
        assert index.name_around(at + 1) == exact
        assert index.name_exact(at + 1) is None


def test_emulated_instructions_are_those_that_a_disassembler_calls_so(cudart: Path) -> None:
    """What objdump calls the first instruction of each function of the real runtime."""
    text = run("objdump", "-d", "--no-show-raw-insn", cudart)
    first = dict(re.findall(r"^[0-9a-f]+ <(\w+)@@\S+>:\n\s+[0-9a-f]+:\s+(.*)$", text, re.MULTILINE))
    assert len(first) > 300
    content = cudart.read_bytes()
    emulated = re.compile(r"^(?:push +%r|nop|jmp +[0-9a-f]|call +[0-9a-f]|j[a-z]+ +[0-9a-f])")
    with open_elf(str(cudart)) as elf:
        for symbol in elf.find_symbols(first):
            code = content[symbol.offset : symbol.offset + 20]
            expected = emulated.match(first[symbol.name]) is not None
            assert is_emulated(code, HERE) == expected, (symbol.name, first[symbol.name])


def test_instructions(tmp_path: Path) -> None:
    """Instructions of all kinds, assembled here, as objdump names them."""
    cases = {
        "push %rbp": True, "push %r15": True, "nop": True, "xchg %ax,%ax": True,
        ".byte 0x0f,0x1f,0x44,0,0": True, "jmp .": True, "call .": True, "je .": True,
        "jne .+1000": True, "jmp *%rax": False, "call *%rax": False, "sub $8,%rsp": False,
        "mov %rdi,%rax": False, "lea 1(%rip),%rax": False, "endbr64": False, "ret": False,
        "pushq $1": False, "push 8(%rax)": False, "xor %eax,%eax": False, "test %rdi,%rdi": False,
    }  # fmt: skip
    source = tmp_path / "cases.s"
    source.write_text(
        "".join(f".globl f{i}\n.type f{i},@function\nf{i}:\n {c}\n" for i, c in enumerate(cases))
    )
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    compile_c(tmp_path / "cases.so", source, "-shared", "-nostdlib", "-Wl,-z,notext")
    with open_elf(str(tmp_path / "cases.so")) as elf:
        places = {s.name: s.offset for s in elf.find_symbols([f"f{i}" for i in range(len(cases))])}
        codes = {c: elf.content[places[f"f{i}"] :][:15] for i, c in enumerate(cases)}
    assert {case: is_emulated(code, HERE) for case, code in codes.items()} == cases


def test_older_kernels_emulate_fewer_nops() -> None:
    assert not is_emulated(bytes.fromhex("0f1f440000"), (6, 15))
    assert is_emulated(bytes.fromhex("0f1f440000"), (6, 16))
    assert is_emulated(b"\x90", (4, 17))
    assert not is_emulated(b"", HERE) and not is_emulated(b"\x41", HERE)


def test_endbr64_is_passed_over_and_others_are_refused() -> None:
    assert find_place(bytes.fromhex("f30f1efa 55 4889e5"), HERE) == (4, None)
    assert find_place(bytes.fromhex("55 4889e5"), HERE) == (0, None)
    place = find_place(bytes.fromhex("f30f1efa 4883ec08"), HERE)
    assert place.refused is not None and "48 83 ec 08" in place.refused


def test_releases() -> None:
    assert parse_release("6.18.44-fc-v769") == (6, 18)
    assert parse_release("5.15.0-91-generic") == (5, 15)
    assert parse_release("odd") == (0, 0)


def test_names_that_share_an_end_are_told_apart(tmp_path: Path) -> None:
    """A linker keeps `cudaFree` as the end of `my_cudaFree`: the names are at one place then."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    source = tmp_path / "ends.c"
    source.write_text(
        "int my_cudaFree(void) { return 1; }\nint cudaFree(void) { return 2; }\n"
        "extern int cudaMalloc(void);\nint (*used)(void) = cudaMalloc;\n"
    )
    compile_c(tmp_path / "ends.so", source, "-shared", "-fPIC", "-O2")
    expected = list_with_nm(tmp_path / "ends.so")
    with open_elf(str(tmp_path / "ends.so")) as elf:
        found = {s.name: s.address for s in elf.find_symbols(["cudaFree", "cudaMalloc"])}
    assert found == {"cudaFree": expected["cudaFree"]}  # what is only used is not there


def test_all_versions_of_a_symbol(tmp_path: Path) -> None:
    """A program that was linked years ago calls another function of the same name."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "v.map").write_text(
        "V1 { global: cudaFree; local: *; };\nV2 { global: cudaFree; } V1;\n"
    )
    source = tmp_path / "v.c"
    source.write_text(
        "int old(void) { return 1; }\nint new(void) { return 2; }\n"
        '__asm__(".symver old,cudaFree@V1");\n__asm__(".symver new,cudaFree@@V2");\n'
    )
    script = f"-Wl,--version-script={tmp_path / 'v.map'}"
    compile_c(tmp_path / "v.so", source, "-shared", "-fPIC", "-O1", "-fno-lto", script)
    subprocess.run(["strip", "--strip-unneeded", tmp_path / "v.so"], check=True)
    expected = [line.split() for line in run("nm", "-D", tmp_path / "v.so").splitlines()]
    places = {int(w[0], 16) for w in expected if len(w) == 3 and w[2].startswith("cudaFree@")}
    assert len(places) == 2
    with open_elf(str(tmp_path / "v.so")) as elf:
        assert {s.address for s in elf.find_symbols(["cudaFree"])} == places


def test_what_is_no_library(tmp_path: Path) -> None:
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(100), b"#!/bin/sh\n" * 20):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(ValueError), open_elf(str(path)):
            pass


def test_damaged_libraries_never_end_a_probe(cudart: Path, tmp_path: Path) -> None:
    import random

    chance, whole, survived = random.Random(1), cudart.read_bytes(), 0
    for _ in range(60):
        data = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.choice([1, 20])):
            place = chance.choice([chance.randrange(64), chance.randrange(len(data))])
            data[place if place < len(data) else 0] = chance.randrange(256)
        (tmp_path / "x").write_bytes(data)
        try:
            with open_elf(str(tmp_path / "x")) as elf:
                survived += len(elf.find_symbols(list_functions())) > 0
                elf.index_symbols()
        except ValueError as error:
            assert str(error)
    assert survived


def test_functions_are_what_their_lines_say() -> None:
    functions = list_functions()
    copy = functions["cudaMemcpy2DAsync_ptsz"]
    assert copy == Function(
        "cudaMemcpy2DAsync_ptsz", "runtime", "copy", 0, (0, 2, 4, 6, 7), 1, 255, 5, 0
    )
    assert functions["cuMemsetD32Async"].shift == 2
    assert functions["cuModuleGetFunction"].text == 2
    assert functions["cudaLaunchKernel"].shape == 1
    assert functions["ncclAllReduce"].layer == "library"
    assert "ncclAllReduce_v2" not in functions and len(functions) < 1000
