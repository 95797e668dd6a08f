"""Call frame information against binutils, and what is no such information."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline._native import Unwinder, UnwindTable
from sightline.record.probe.elf import open_elf
from sightline.record.probe.processes import read_mappings
from sightline.record.sampling.images import CodeImage

# Names of readelf, numbers of DWARF (System V ABI for AMD64, 3.6.2).
NUMBERS = {
    "rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7,
    **{f"r{n}": n for n in range(8, 16)}, "ra": 16,
}  # fmt: skip
_CFA = re.compile(r"^(r\w+)([+-]\d+)$")


def list_rules(library: str) -> Iterator[tuple[int, tuple[int, int], dict[int, int]]]:
    """Address, frame's base and offset, and saved registers, as readelf interprets them."""
    command = ["readelf", "--debug-dump=frames-interp", library]
    # Its exit code is 1 for sections that it cannot decompress.
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    columns: list[str] = []
    in_function = False
    for line in text.splitlines():
        words = line.split()
        if " FDE " in line or " CIE " in line:
            in_function = " FDE " in line
        elif words[:2] == ["LOC", "CFA"]:
            columns = words[2:]
        elif in_function and len(words) == len(columns) + 2 and len(words[0]) == 16:
            found = _CFA.match(words[1])
            base = (NUMBERS[found[1]], int(found[2])) if found else (-1, 0)
            saved = {
                NUMBERS[name]: int(value[1:])
                for name, value in zip(columns, words[2:], strict=True)
                if re.fullmatch(r"c[+-]\d+", value)
            }
            yield int(words[0], 16), base, saved


def find_libraries() -> list[str]:
    """The C library, its loader, libpython and the C++ library, where they are here."""
    files = {m.path for m in read_mappings(os.getpid()) if m.executable}
    wanted = re.compile(r"/(?:libc[.-]|ld-linux|libpython|libstdc\+\+|python3)[^/]*$")
    own = sysconfig.get_config_var("LDLIBRARY") or ""
    return sorted(f for f in files if wanted.search(f) or (own and f.endswith(own)))


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils are not installed")
def test_rules_are_those_of_binutils() -> None:
    """Each row of libraries that nobody here built: the frame's address and saved registers."""
    libraries = find_libraries()
    assert libraries
    library = min(libraries, key=lambda path: Path(path).stat().st_size)
    checked = 0
    for path in {library, next((f for f in libraries if "/libc" in f), library)}:
        with open_elf(path) as elf:
            table = CodeImage(elf).table
        assert table is not None
        seen: set[int] = set()
        for address, base, saved in list_rules(path):
            if address in seen:  # an address where a function has two rows: the last one holds
                continue
            seen.add(address)
            found = table.describe_rules(address)
            assert found is not None, hex(address)
            assert found[0] == base[0], (path, hex(address))
            if base[0] >= 0:
                assert found[1] == base[1], (path, hex(address))
            assert found[2] == saved, (path, hex(address))
            checked += 1
    assert checked > 1000


def own_table() -> tuple[bytes, int, bytes, int]:
    library = find_libraries()[0]
    with open_elf(library) as elf:
        index, frames = (elf.read_section(n, 1 << 28) for n in (".eh_frame_hdr", ".eh_frame"))
        assert index is not None and frames is not None
        return index[1], index[0], frames[1], frames[0]


def test_damaged_tables_make_no_trouble() -> None:
    """Bits turned over and ends cut off: rules, none, or a ValueError, and never a crash."""
    index, index_at, frames, frames_at = own_table()
    shuffled, described = random.Random(7), 0
    whole = UnwindTable(index, index_at, frames, frames_at)
    drawn = [shuffled.randrange(frames_at) for _ in range(2000)]
    known = [address for address in drawn if whole.describe_rules(address) is not None]
    for _ in range(60):
        parts = [bytearray(index), bytearray(frames)]
        # A damaged index is refused as a whole; so every other time it is the frames alone.
        for part in parts if shuffled.random() < 0.5 else parts[1:]:
            for _ in range(shuffled.randrange(200)):
                part[shuffled.randrange(len(part))] ^= 1 << shuffled.randrange(8)
            del part[shuffled.randrange(len(part) // 2, len(part) + 1) :]
        try:
            table = UnwindTable(bytes(parts[0]), index_at, bytes(parts[1]), frames_at)
        except ValueError:
            continue
        for _ in range(200):
            described += table.describe_rules(shuffled.choice(known)) is not None
            table.describe_rules(shuffled.randrange(1 << 64))
    assert described


def test_an_index_of_another_form_is_refused() -> None:
    index, index_at, frames, frames_at = own_table()
    for damaged in (b"", index[:8], b"\2" + index[1:], index[:3] + b"\x1b" + index[4:]):
        with pytest.raises(ValueError, match="index of call frames"):
            UnwindTable(damaged, index_at, frames, frames_at)


def unwind(code: bytes, registers: dict[str, int], stack: bytes) -> tuple[list[int], int]:
    """From the middle of code without rules, at 0x1000, to what lies at 0x9000."""
    order = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "ra"]
    order += [f"r{n}" for n in range(8, 16)]
    words = b"".join(registers.get(name, 0).to_bytes(8, "little") for name in order)

    def find(address: int) -> tuple[int, int, int, None] | None:
        return (0x1000, 0x2000, 0, None) if 0x1000 <= address < 0x2000 else None

    addresses, how = Unwinder().unwind(words, stack, find, lambda at: code[at - 0x1000 :])
    count = len(addresses) // 8
    return [int.from_bytes(addresses[8 * i : 8 * i + 8], "little") for i in range(count)], how


@pytest.mark.parametrize(
    ("code", "depth"),
    [
        ("4883c408 c3", 8),  # add $8, %rsp; ret: CPython 3.12 and 3.13
        ("5d c3", 8),  # pop %rbp; ret: CPython 3.14
        ("c9 c3", 24),  # leave; ret
        ("f30f1efa 415c 415f f3c3", 16),  # endbr64; pop %r12; pop %r15; rep ret
    ],
)
def test_code_without_rules_is_left_as_its_instructions_say(code: str, depth: int) -> None:
    stack = bytearray(64)
    stack[depth : depth + 8] = (0x9000).to_bytes(8, "little")
    registers = {"ra": 0x1000, "rsp": 0x7000, "rbp": 0x7000 + depth - 8}
    found, how = unwind(bytes.fromhex(code.replace(" ", "")), registers, bytes(stack))
    assert found == [0x1000, 0x9000]
    assert how == 2  # at 0x9000 there is no code


def test_frame_pointers_are_taken_where_nothing_else_is_known() -> None:
    """Two frames of a JIT that keeps frame pointers; what they lead to must be code."""
    stack = bytearray(96)
    for at, value in ((16, 0x7040), (24, 0x1800), (64, 0), (72, 0x5555)):
        stack[at : at + 8] = value.to_bytes(8, "little")
    registers = {"ra": 0x1004, "rsp": 0x7000, "rbp": 0x7010}
    found, how = unwind(b"\x90" * 0x1000, registers, bytes(stack))
    assert (found, how) == ([0x1004, 0x1800], 2)


def test_a_stack_that_was_not_copied_to_its_end_says_so() -> None:
    registers = {"ra": 0x1000, "rsp": 0x7000, "rbp": 0}
    code = bytes.fromhex("4883c408c3")
    assert unwind(code, registers, bytes(8)) == ([0x1000], 1)


def test_stacks_that_lead_in_a_circle_end() -> None:
    stack = (0x7000).to_bytes(8, "little") + (0x1000).to_bytes(8, "little")
    found, _ = unwind(b"\x90" * 64, {"ra": 0x1000, "rsp": 0x7000, "rbp": 0x7000}, stack * 4)
    assert len(found) < 10
