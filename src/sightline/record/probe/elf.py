"""Symbols of ELF files: where a function begins, and whose an address is.

A library of a gigabyte is mapped, and of it only the tables of symbols are read. Layouts: System V
ABI, Edition 4.1 with the gABI's 64-bit extension (https://refspecs.linuxfoundation.org).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from sightline.record.probe.processors import find_by_elf

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SHT_SYMTAB, _SHT_DYNSYM, _SHT_NOBITS = 2, 11, 8
_PT_LOAD = 1
# crt/host_runtime.h of CUDA: where the handle of a fat binary lies, and what it is given to.
_KERNELS, _REGISTERS = ".nvFatBinSegment", b"__cudaRegisterFatBinary"
_SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
     ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")]
)  # fmt: skip
_SEGMENT = np.dtype(
    [("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("address", "<u8"),
     ("physical", "<u8"), ("file_size", "<u8"), ("memory_size", "<u8"), ("align", "<u8")]
)  # fmt: skip
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
     ("size", "<u8")]
)  # fmt: skip
Array = np.ndarray[Any, Any]

_COMPARED_BYTES = 4  # of each name at first: `cuda`, `cuMe`, `nccl` leave few of the others
_OBJECT, _FUNCTION, _INDIRECT = 1, 2, 10  # STT_OBJECT, STT_FUNC, STT_GNU_IFUNC


_INDEXED = np.dtype(
    [("address", "<u8"), ("size", "<u8"), ("name", "<u4"), ("table", "u1"), ("is_function", "?")]
)


class SymbolIndex:
    """The symbols of a file in order of their addresses."""

    def __init__(self, rows: Array, texts: list[bytes]) -> None:
        self._rows, self._texts = rows, texts
        self._functions = rows[rows["is_function"]]

    def name_exact(self, address: int) -> str | None:
        """The function or variable that begins there."""
        at = int(np.searchsorted(self._rows["address"], address))
        if at == len(self._rows) or int(self._rows["address"][at]) != address:
            return None
        return self._name(self._rows[at])

    def name_around(self, address: int) -> str | None:
        """The function that an address lies in; one without a size reaches to the next one."""
        at = int(np.searchsorted(self._functions["address"], address, side="right")) - 1
        if at < 0:
            return None
        row = self._functions[at]
        inside = address - int(row["address"])
        return self._name(row) if inside < int(row["size"]) or not row["size"] else None

    def _name(self, row: Any) -> str:
        return _text_at(self._texts[int(row["table"])], int(row["name"]))


class Symbol(NamedTuple):
    """A defined symbol: its address in the image, and its place in the file."""

    name: str
    address: int
    offset: int


class Elf:
    """The symbol tables of one mapped file."""

    def __init__(self, content: mmap.mmap | bytes) -> None:
        """Raise ValueError where it is not a whole ELF file for a processor that is known."""
        self.content = content
        if len(content) < _HEADER.size or content[:6] != b"\x7fELF\x02\x01":
            raise ValueError("it is not a 64-bit ELF file")
        fields = _HEADER.unpack_from(content)
        processor = find_by_elf(fields[2])
        if processor is None:
            raise ValueError("it is for a processor other than x86-64 and AArch64")
        self.processor = processor
        self.segments = self._rows(_SEGMENT, fields[5], fields[10])
        self.segments = self.segments[self.segments["type"] == _PT_LOAD]
        self._sections = self._rows(_SECTION, fields[6], fields[12])
        self._names_at = fields[13]  # which section holds the names of sections

    def _rows(self, kind: np.dtype[Any], offset: int, count: int) -> Array:
        if offset + count * kind.itemsize > len(self.content):
            raise ValueError("it ends early")
        return np.frombuffer(self.content, kind, count, offset)

    def _tables(self) -> Iterator[tuple[Array, bytes]]:
        """Symbols and the texts of their names; .symtab has hidden ones, where it was not cut."""
        for section in self._sections:
            if section["type"] not in (_SHT_SYMTAB, _SHT_DYNSYM):
                continue
            if section["link"] >= len(self._sections):
                continue
            texts = self._sections[section["link"]]
            try:
                count = int(section["size"]) // _SYMBOL.itemsize
                symbols = self._rows(_SYMBOL, int(section["offset"]), count)
            except ValueError:
                continue
            start = int(texts["offset"])
            yield symbols, self.content[start : start + int(texts["size"])]

    def read_section(self, name: str, most: int) -> tuple[int, bytes] | None:
        """Address and content of a section; None where there is none, or it has more bytes."""
        section = self._find_section(name)
        if section is None:
            return None
        offset, size = int(section["offset"]), int(section["size"])
        content = self.content[offset : offset + size] if size <= most else b""
        is_whole = size == len(content) and section["type"] != _SHT_NOBITS
        return (int(section["address"]), bytes(content)) if is_whole else None

    def measure_section(self, name: str) -> int | None:
        """The bytes of a section in the file; None where there is none."""
        section = self._find_section(name)
        return None if section is None else int(section["size"])

    def _find_section(self, name: str) -> Any:
        if self._names_at >= len(self._sections):
            return None
        start = int(self._sections[self._names_at]["offset"])
        for section in self._sections:
            at = start + int(section["name"])
            if self.content[at : at + len(name) + 1] == name.encode() + b"\0":
                return section
        return None

    def hides_runtime(self) -> bool:
        """Whether it was linked with a CUDA runtime whose functions have no names any more.

        nvcc puts kernels into a section that stays when a file is stripped, and has them registered
        by the runtime: one that is in another file is imported by name.
        """
        if self._find_section(_KERNELS) is None:
            return False
        wanted = {_REGISTERS}
        return not any(
            True for symbols, texts in self._tables() for _ in _match_names(symbols, texts, wanted)
        )

    def find_symbols(self, names: Iterable[str]) -> list[Symbol]:
        """The defined functions of these names, each name and place once."""
        wanted = {name.encode() for name in names}
        found: dict[tuple[str, int], Symbol] = {}
        for symbols, texts in self._tables():
            is_function = np.isin(symbols["info"] & 15, (_FUNCTION, _INDIRECT))
            functions = symbols[is_function & (symbols["section"] != 0)]
            for row, name in _match_names(functions, texts, wanted):
                address = int(functions["value"][row])
                offset = self.find_offset(address)
                if offset is not None:
                    found[name, offset] = Symbol(name, address, offset)
        return list(found.values())

    def list_objects(self, ending: bytes) -> list[tuple[str, int]]:
        """Name and address of each variable whose name ends so."""
        found = {}
        for symbols, texts in self._tables():
            starts = list(_find_endings(texts, ending))
            is_object = (symbols["info"] & 15) == _OBJECT
            for row in np.flatnonzero(is_object & np.isin(symbols["name"], starts)):
                found[_text_at(texts, int(symbols["name"][row]))] = int(symbols["value"][row])
        return list(found.items())

    def index_symbols(self) -> SymbolIndex:
        """Functions and variables by address; names are read when they are asked for."""
        rows, texts = [], []
        for number, (symbols, names) in enumerate(self._tables()):
            kinds = symbols["info"] & 15
            mine = symbols[np.isin(kinds, (_OBJECT, _FUNCTION)) & (symbols["section"] != 0)]
            found = np.zeros(len(mine), _INDEXED)
            found["address"], found["size"] = mine["value"], self._find_sizes(mine)
            found["name"], found["table"] = mine["name"], number
            found["is_function"] = (mine["info"] & 15) == _FUNCTION
            rows.append(found)
            texts.append(names)
        every = np.concatenate(rows) if rows else np.zeros(0, _INDEXED)
        return SymbolIndex(every[np.argsort(every["address"], kind="stable")], texts)

    def _find_sizes(self, symbols: Array) -> Array:
        """Their sizes; of one without, such as _init, what is left of its section."""
        ends = self._sections["address"] + self._sections["size"]
        section = np.minimum(symbols["section"].astype(np.int64), len(ends) - 1)
        left = ends[section] - symbols["value"]
        is_inside = (symbols["section"] < len(ends)) & (symbols["value"] < ends[section])
        return np.where((symbols["size"] == 0) & is_inside, left, symbols["size"])

    def find_offset(self, address: int) -> int | None:
        """Where in the file the byte of an address in the image lies."""
        for segment in self.segments:
            inside = address - int(segment["address"])
            if 0 <= inside < int(segment["file_size"]):
                return inside + int(segment["offset"])
        return None


@contextmanager
def open_elf(path: str) -> Iterator[Elf]:
    """The file, mapped while it is used. Raises OSError, or ValueError where it is no such file."""
    with open(path, "rb") as file:  # noqa: PTH123  # magic links of /proc are not ordinary paths
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise ValueError("it is empty") from error
    elf = Elf(mapped)
    yield elf  # the map goes with the last array that looks into it


def _match_names(symbols: Array, texts: bytes, wanted: set[bytes]) -> Iterator[tuple[int, str]]:
    """The rows of symbols that have one of these names.

    A library of PyTorch's has 500,000 symbols with 80 MB of names (libtorch_cpu 2.13): to look for
    each name in them took 12 s. Their first bytes, of all at once, leave a few that are read.
    """
    content = np.frombuffer(texts, np.uint8)
    starts = symbols["name"].astype(np.int64)
    depth = min([_COMPARED_BYTES, *map(len, wanted)])
    rows = np.flatnonzero(starts < len(content) - depth)
    for place in range(depth):
        is_first = np.zeros(256, bool)
        is_first[[name[place] for name in wanted]] = True
        rows = rows[is_first[content[starts[rows] + place]]]
    for row in rows.tolist():
        start = int(starts[row])
        name = texts[start : texts.find(b"\0", start)]
        if name in wanted:
            yield row, name.decode()


def _find_endings(texts: bytes, ending: bytes) -> Iterator[int]:
    """Where each text begins that ends so."""
    at, ending = -1, ending + b"\0"
    while (at := texts.find(ending, at + 1)) >= 0:
        yield texts.rfind(b"\0", 0, at) + 1


def _text_at(texts: bytes, at: int) -> str:
    return texts[at : texts.find(b"\0", at)].decode(errors="replace")
