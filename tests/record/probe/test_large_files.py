"""Libraries of hundreds of megabytes, as PyTorch's: searched in one pass, whatever they hold."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import struct
import time
from pathlib import Path

import pytest

from record.probe.programs import compile_c
from sightline.record.probe.elf import open_elf
from sightline.record.probe.functions import list_functions
from sightline.record.probe.names import ProcessNames, SymbolFiles
from sightline.record.probe.processes import Memory

_FUNCTION, _GLOBAL = 2, 1 << 4
_CODE_AT = 0x1000


def write_library(path: Path, symbols: list[tuple[bytes, int, int, int]]) -> None:
    """An ELF file for x86-64 with one segment; symbols: texts, start in them, address, section."""
    texts, entries, starts = bytearray(b"\0"), [bytes(24)], {}
    for name, inside, address, section in symbols:
        if name not in starts:
            starts[name] = len(texts)
            texts += name + b"\0"
        entries.append(
            struct.pack(
                "<IBBHQQ", starts[name] + inside, _GLOBAL | _FUNCTION, 0, section, address, 16
            )
        )
    table = b"".join(entries)
    names = b"\0.symtab\0.strtab\0.shstrtab\0"
    at = 64 + 56
    sections = [bytes(64)]
    for name, kind, size, link in (
        (b".symtab", 2, len(table), 2),
        (b".strtab", 3, len(texts), 0),
        (b".shstrtab", 3, len(names), 0),
    ):
        sections.append(
            struct.pack("<IIQQQQIIQQ", names.index(name), kind, 0, 0, at, size, link, 0, 1, 24)
        )
        at += size
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at, 0, 64, 56, 1, 64, len(sections), 3)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, at, at, 4096)
    path.write_bytes(head + segment + table + texts + names + b"".join(sections))


def test_a_large_file_is_searched_in_one_pass(tmp_path: Path) -> None:
    """300,000 symbols with 30 MB of names: each name's own search took 6 s of the processor."""
    symbols = [
        (b"_ZN2at6native%06d" % n + b"x" * 80, 0, _CODE_AT + 16 * n, 1) for n in range(300_000)
    ]
    symbols += [(b"cudaOfNobody%d" % n, 0, 1, 1) for n in range(1000)]
    expected = {}
    for n, name in enumerate(sorted(list_functions())[::9]):
        expected[name] = _CODE_AT + 8 * n
        # Every other one is the end of a longer name, as linkers lay them.
        longer = b"my_" + name.encode() if n % 2 else name.encode()
        symbols.append((longer, 3 * (n % 2), expected[name], 1))
    absent = sorted(list_functions())[1]
    symbols.append((absent.encode(), 0, 0, 0))  # only used there
    write_library(tmp_path / "large.so", symbols)
    with open_elf(str(tmp_path / "large.so")) as elf:
        began = time.process_time()
        found = elf.find_symbols(list_functions())
        spent = time.process_time() - began
    assert {symbol.name: symbol.address for symbol in found} == expected
    assert absent not in expected and len(expected) > 50
    assert spent < 1


def test_the_library_of_pytorch_is_searched_within_a_second() -> None:
    spec = importlib.util.find_spec("torch")
    places = (spec and spec.submodule_search_locations) or []
    libraries = [p for place in places for p in Path(place).glob("lib/libtorch_cpu.so")]
    if not libraries:
        pytest.skip("there is no PyTorch")
    with open_elf(str(libraries[0])) as elf:
        began = time.process_time()
        assert elf.find_symbols(list_functions()) == []
        assert time.process_time() - began < 1


def test_kernels_without_a_stub_do_not_have_all_stubs_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of kernels has ten thousand variables with handles, and others launch, too."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    name = "_ZZ28__device_stub__Z5saxpyifPfS_ifPfS_E8__handle"
    source = tmp_path / "stubs.c"
    source.write_text(
        "".join(
            f'unsigned long h{n} __asm__("{name.replace("5saxpy", f"{len(str(n)) + 1}k{n}")}")'
            f" = {0x7000_0000_0000 + n};\n".replace("28__", f"{22 + len(str(n)) + 2}__")
            for n in range(2000)
        )
    )
    compile_c(tmp_path / "stubs.so", source, "-shared", "-fPIC")
    held = ctypes.CDLL(str(tmp_path / "stubs.so"))
    reads = []
    read_words = Memory.read_words

    def count(memory: Memory, addresses: list[int]) -> list[int]:
        reads.append(len(addresses))
        return read_words(memory, addresses)

    monkeypatch.setattr(Memory, "read_words", count)
    names = ProcessNames(os.getpid(), SymbolFiles())
    names.refresh()
    assert names.find_kernel(0x7000_0000_0000 + 123) == "_Z4k123ifPfS_"
    for number in range(5000):
        assert names.find_kernel(0x6000_0000_0000 + number) is None
    assert reads[0] == 2000 and len(reads) < 100
    assert held is not None
