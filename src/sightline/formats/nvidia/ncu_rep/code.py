"""From code addresses to functions, opcodes and source lines."""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sightline.core.protobuf import DamagedMessageError
from sightline.formats._cubin import INSTRUCTION_BYTES, Cubin, read_cubin, read_opcode
from sightline.formats.nvidia._sass import read_operation
from sightline.formats.nvidia.ncu_rep.blocks import Report, read_fields

# The file holds the low halves only of what it needs; an SM revision is major << 16 | minor.
_FAR = 16 << 20  # no kernel is longer than 16 MiB: addresses further off are not code of it


@dataclass(frozen=True)
class Place:
    """Where an instruction is."""

    offset: int | None = None
    function: str | None = None
    opcode: str | None = None
    file: str | None = None
    line: int | None = None
    before: str | None = None  # the operation of the instruction before, with its size


@dataclass
class Module:
    """A module of GPU code: its binary, and where its functions were loaded."""

    cubin: Cubin | None = None
    capability: int = 0
    addresses: dict[str, int] = field(default_factory=dict)


class Code:
    """All GPU code of a report, by the number that results refer to it with."""

    def __init__(self, report: Report) -> None:
        self.modules: dict[int, Module] = {}
        self.files: dict[str, str | None] = {}
        self.damaged = 0
        self.notes: list[str] = []
        for _, start, end in report.of("Source"):
            try:
                self._add(read_fields("Source", report.data[start:end]))
            except DamagedMessageError:
                self.damaged += 1

    def _add(self, source: dict[str, Any]) -> None:
        module = self.modules.setdefault(source.get("Reference", 0), Module())
        revision = source.get("SMRevision")
        if revision is not None:
            module.capability = 10 * (revision >> 16) + (revision & 0xFFFF)
        for function in source.get("RelocationData", {}).get("Functions", []):
            if "Name" in function and "Address" in function:
                module.addresses[function["Name"]] = function["Address"]
        for file in source.get("SourceFiles", {}).get("Files", []):
            if "FileName" in file:
                self.files[file["FileName"]] = file.get("Content")
        if "Binary" in source and module.cubin is None:
            module.cubin = read_cubin(source["Binary"])
            if module.cubin.note is not None:
                self.notes.append(module.cubin.note)

    def places(
        self, reference: int | None, mangled: str | None, base: int | None, addresses: list[int]
    ) -> dict[int, Place]:
        """The place of each address; addresses that are not code of this kernel are left out."""
        module = self.modules.get(-1 if reference is None else reference, Module())
        starts = {a: n for n, a in module.addresses.items()}
        if base is not None and mangled is not None:
            starts[base] = mangled
        order = sorted(starts)
        found = {}
        for address in addresses:
            at = bisect.bisect_right(order, address) - 1
            if at < 0:
                continue
            function, offset = starts[order[at]], address - order[at]
            size = self._size(module, function)
            if offset < (_FAR if size is None else size):
                found[address] = self._place(module, reference, function, offset)
        return found

    @staticmethod
    def _size(module: Module, function: str) -> int | None:
        bounds = module.cubin.code.get(function) if module.cubin else None
        return None if bounds is None else bounds[1] - bounds[0]

    def _place(self, module: Module, reference: int | None, function: str, offset: int) -> Place:
        cubin = module.cubin
        if cubin is None:
            return Place(offset, function)
        word = cubin.read_instruction(function, offset)
        name = None if word is None else read_opcode(word[0], module.capability, word[1])
        rows = cubin.lines.get(function, [])
        at = bisect.bisect_right(rows, offset, key=lambda row: row[0]) - 1
        _, file, line = rows[at] if at >= 0 else (0, None, None)
        last = cubin.read_instruction(function, offset - INSTRUCTION_BYTES)
        before = None if last is None else read_operation(*last, module.capability)
        return Place(offset, function, name, file or None, line, before)


def is_other_code(
    places: dict[int, Place], executed: dict[int, int], counted: dict[str, float]
) -> list[str]:
    """Opcodes of which more were decoded than the report counted: then the decoding is wrong."""
    ours: Counter[str] = Counter()
    for address, count in executed.items():
        name = places[address].opcode if address in places else None
        if name is not None:
            ours[name] += count
    return sorted(n for n, count in ours.items() if count > counted.get(n, 0)) if counted else []
