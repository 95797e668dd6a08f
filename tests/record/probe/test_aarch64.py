"""What is different on AArch64, as far as another machine can show it: code, registers, programs.

Probes on a real kernel for it: docs/probe.md says how, and what came of it.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from record.probe.programs import compile_c
from sightline.record.probe import cost
from sightline.record.probe.cost import Cost, has_cheap_steps
from sightline.record.probe.elf import open_elf
from sightline.record.probe.functions import list_functions
from sightline.record.probe.perf_words import list_words
from sightline.record.probe.placement import MOST_STEP_NS, find_place, is_simulated
from sightline.record.probe.processors import AARCH64, X86_64, Processor
from support.places import ROOT

NEW = (6, 18)
PROGRAMS = ROOT / "native" / "probe" / "calls.bpf.c"
# What the kernel has of it, arch/arm64/include/uapi/asm/ptrace.h.
REGISTERS = "struct user_pt_regs { __u64 regs[31]; __u64 sp; __u64 pc; __u64 pstate; };\n"


def needs_clang() -> str:
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("there is no clang")
    return clang


CASES = {
    "stp x29, x30, [sp, #-48]!": False, "stp x29, x30, [sp, #-512]!": False,
    "sub sp, sp, #32": False,
    "str x19, [sp, #-16]!": False, "mov x0, x1": False, "paciasp": False, "bti c": False,
    "nop": True, "b .": True, "bl .+64": True, "b.eq .": True, "b.al .+1024": True,
    "cbz x3, .": True,
    "cbnz w0, .+8": True, "tbz x1, #63, .": True, "tbnz w2, #5, .+16": True, "adr x0, .": True,
    "adrp x16, .": True, "br x16": True, "blr x3": True, "ret": True, "ret x1": True,
    "ldr x0, .+8": False, "ldr d0, .+8": False, "ldr x0, [x1]": False, "svc #0": False,
    "brk #1": False,
    "mrs x0, tpidr_el0": False, "ldxr x0, [x1]": False, "yield": False, "isb": False,
    "cmp x0, #0": False, "and x0, x1, #0xff": False, "fmov d0, d1": False, "orr w0, w1, w2": False,
}  # fmt: skip


def assemble(folder: Path, instructions: list[str]) -> list[int]:
    source = folder / "cases.s"
    source.write_text(".text\n" + "\n".join(instructions) + "\n")
    command = [needs_clang(), "--target=aarch64-linux-gnu", "-march=armv8.5-a", "-c", source]
    subprocess.run([*command, "-o", folder / "cases.o"], check=True)
    with open_elf(str(folder / "cases.o")) as elf:
        assert elf.processor is AARCH64
        found = elf.read_section(".text", 1 << 16)
    assert found is not None
    return list(struct.unpack(f"<{len(instructions)}I", found[1]))


def test_instructions_that_the_kernel_simulates(tmp_path: Path) -> None:
    words = assemble(tmp_path, list(CASES))
    found = {case: is_simulated(word, NEW) for case, word in zip(CASES, words, strict=True)}
    assert found == CASES
    nop = words[list(CASES).index("nop")]
    assert not is_simulated(nop, (6, 12)) and is_simulated(nop, (6, 13))


def test_where_a_probe_goes(tmp_path: Path) -> None:
    pushed, landing, signed, branch = assemble(
        tmp_path, ["stp x29, x30, [sp, #-16]!", "bti c", "paciasp", "b ."]
    )

    def place(*words: int, cheap: bool) -> tuple[int, str | None]:
        code = struct.pack(f"<{len(words)}I", *words)
        return find_place(code, NEW, AARCH64, cheap_steps=cheap)

    assert place(branch, cheap=False) == (0, None)
    assert place(landing, branch, cheap=False) == (4, None)
    assert place(pushed, cheap=True) == (0, None)
    assert place(landing, pushed, cheap=True) == (4, None)
    # Behind it the return address is signed: what the kernel puts in its place would not be.
    assert place(signed, branch, cheap=True) == (0, None)
    refused = place(pushed, cheap=False)
    assert refused[1] is not None and "a9bf7bfd" in refused[1] and "single-stepped" in refused[1]
    assert place(cheap=True)[1] is not None


def test_steps_are_taken_where_they_were_measured_to_be_cheap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cheap, dear = Cost(2_200, 1_100), Cost(33_000, 16_500)
    assert dear.hit_ns > MOST_STEP_NS
    for processor, expected in (
        (AARCH64, [True, False]),
        (X86_64, [False] * 2),
        (None, [False] * 2),
    ):
        monkeypatch.setattr(cost, "find_processor", lambda chosen=processor: chosen)
        assert [has_cheap_steps(c) for c in (cheap, dear)] == expected


def lay_out(values: list[int], processor: Processor) -> tuple[np.ndarray, np.ndarray]:
    """Registers and stack at the entry of a function with these arguments."""
    inside, stack_pointer = len(processor.arguments), 0x7FFF_0000
    registers = np.full((1, len(processor.sampled)), 0xDEAD, "<u8")
    held = [*values, *[0xDEAD] * inside][:inside]
    registers[0, list(processor.arguments)] = held
    registers[0, processor.stack] = stack_pointer
    stack = [0xBEEF] * (processor.call_bytes // 8) + values[inside:]
    return registers, np.array([stack + [0] * (128 - len(stack))], "<u8")


@pytest.mark.parametrize("processor", [X86_64, AARCH64], ids=lambda p: p.machine)
def test_arguments_become_the_same_words(processor: Processor) -> None:
    functions = list_functions()

    def words(name: str, *values: int) -> list[int]:
        found, _ = list_words(functions[name], *lay_out(list(values), processor), processor)
        return found[0].tolist()

    grid, block = (7 | 5 << 32, 3), (128 | 2 << 32, 1)
    packed = 128 | 2 << 16 | 1 << 32
    runtime = words("cudaLaunchKernel", 0xF0, *grid, *block, 0xA0, 2048, 0x5000)
    assert runtime == [0xF0, 7 | 5 << 32, 3 | 2048 << 32, packed, 0x5000]
    driver = words("cuLaunchKernel", 0xF0, 7, 5, 3, 128, 2, 1, 2048, 0x5000, 0xA0)
    assert driver == runtime
    pitched = words("cudaMemcpy2DAsync", 0x10, 512, 0x20, 256, 200, 30, 2, 0x5000)
    assert pitched == [0x10, 0x20, 200 * 30, 2, 0x5000]
    # The configuration lies in the caller's frame, behind what the call itself needs.
    registers, stack = lay_out([0, 0xF0], processor)
    registers[0, processor.arguments[0]] = int(registers[0, processor.stack]) + 64
    config = struct.pack("<7I4xQ", 7, 5, 3, 128, 2, 1, 2048, 0x5000)
    stack[0, 8 : 8 + len(config) // 8] = np.frombuffer(config, "<u8")
    extended, _ = list_words(functions["cuLaunchKernelEx"], registers, stack, processor)
    assert extended[0].tolist() == runtime


def test_libraries_of_another_processor_are_read(tmp_path: Path) -> None:
    """The tables of symbols are alike: a library of here, said to be for AArch64, for neither."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    source = tmp_path / "a.c"
    source.write_text("int cudaFree(void) { return 2; }\n")
    compile_c(tmp_path / "a.so", source, "-shared", "-fPIC")
    data = bytearray((tmp_path / "a.so").read_bytes())
    for machine, processor in ((183, AARCH64), (62, X86_64)):
        data[18:20] = machine.to_bytes(2, "little")
        (tmp_path / "b.so").write_bytes(data)
        with open_elf(str(tmp_path / "b.so")) as elf:
            assert elf.processor is processor
            assert [s.name for s in elf.find_symbols(["cudaFree"])] == ["cudaFree"]
    data[18:20] = (243).to_bytes(2, "little")  # RISC-V
    (tmp_path / "b.so").write_bytes(data)
    with pytest.raises(ValueError, match="a processor other"), open_elf(str(tmp_path / "b.so")):
        pass


def compile_programs(folder: Path, processor: str, includes: list[Path]) -> bytes:
    command = [needs_clang(), "-O2", "-g", "-Wall", "-Werror", "-target", "bpf"]
    command += [f"-D__TARGET_ARCH_{processor}", *(f"-I{i}" for i in includes)]
    done = subprocess.run(
        [*command, "-c", PROGRAMS, "-o", folder / "o"], capture_output=True, text=True
    )
    if "bpf_helpers.h" in done.stderr:
        pytest.skip("libbpf's headers are not installed")
    assert done.returncode == 0, done.stderr
    return (folder / "o").read_bytes()


def list_loads(content: bytes) -> set[int]:
    """Offsets of the words that the programs load from somewhere (BPF_LDX | BPF_MEM | BPF_DW)."""
    loads = set()
    for offset in range(0, len(content) - 8, 8):
        code, _, place = struct.unpack_from("<BBh", content, offset)
        if code == 0x79:
            loads.add(place)
    return loads


def test_the_programs_read_the_registers_of_each_processor(tmp_path: Path) -> None:
    """For AArch64 they load x0 to x7, x30 where a call returns to, and sp; here, rdi and so on."""
    stub = tmp_path / "include" / "asm"
    stub.mkdir(parents=True)
    (stub / "ptrace.h").write_text(REGISTERS)
    own = next(iter(Path("/usr/include").glob("*-linux-gnu")), Path("/usr/include"))
    arm = list_loads(compile_programs(tmp_path, "arm64", [stub.parent, own]))
    assert arm >= {*range(0, 64, 8), 30 * 8, 31 * 8}
    if own.name.startswith("x86_64"):
        here = list_loads(compile_programs(tmp_path, "x86", [own]))
        # rdi, rsi, rdx, rcx, r8, r9, rsp, rax: arch/x86/include/uapi/asm/ptrace.h
        assert here >= {112, 104, 96, 88, 72, 64, 152, 80} and not here >= {30 * 8, 31 * 8}


def test_no_other_processor_is_guessed(tmp_path: Path) -> None:
    done = subprocess.run(
        [needs_clang(), "-target", "bpf", "-E", PROGRAMS, "-o", tmp_path / "x"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert re.search("works on x86-64 and AArch64 only|file not found", done.stderr)
