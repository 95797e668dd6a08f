"""Which functions lie where: in shared libraries, and in programs that hold a runtime themselves.

Every mapped file is looked at, whatever its name: a wheel renames its libcudart, and a program or
an extension module that was linked with the static runtime has the functions of its own, as hidden
symbols, unless it was stripped.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sightline.core.foreign_files import Descriptor
from sightline.record.probe.elf import Symbol, open_elf
from sightline.record.probe.functions import Function, list_functions
from sightline.record.probe.placement import NEEDED_BYTES, find_place
from sightline.record.probe.processes import Mapping, find_file, read_mappings

# What is part of the system and calls no GPU; a few dozen files of each Python program.
_SYSTEM = re.compile(
    r"^/(?:usr/)?lib(?:64|/x86_64-linux-gnu|/aarch64-linux-gnu)?/(?:ld-linux|libc|libm|libdl|libpthread|librt|libutil"
    r"|libgcc_s|libstdc\+\+|libz|libffi|libssl|libcrypto|libexpat|liblzma|libbz2)[-.]"
)


@dataclass(frozen=True)
class Site:
    """A function in a file, and where its probe goes."""

    function: Function
    file: tuple[str, int]
    module: str  # the file's name, as the process sees it
    offset: int  # in the file
    refused: str | None = None  # why there is no probe

    @property
    def place(self) -> tuple[tuple[str, int], int]:
        """What tells it from all others: the file, and where in it."""
        return self.file, self.offset


@dataclass
class Library:
    """A mapped file with functions that can be probed."""

    path: str  # as the process sees it
    file: Descriptor  # held: the process may put another file there, which is not to be probed
    sites: list[Site] = field(default_factory=list)

    @property
    def opened(self) -> str:
        """The path by which it can be opened from here."""
        return self.file.path


class Targets:
    """The files that were looked at, each once.

    `cheap_steps`: whether instructions may be probed over which the kernel steps (placement).
    """

    def __init__(self, *, cheap_steps: bool = False) -> None:
        self._cheap_steps = cheap_steps
        self._known: dict[tuple[str, int], Library | None] = {}
        self.hidden: set[str] = set()  # files that were stripped, with a CUDA runtime in them
        self._kernel = parse_release(platform.release())

    def find(self, pid: int) -> list[Library]:
        """The files with functions that a process has mapped now. Raises PermissionError."""
        found: dict[tuple[str, int], Library] = {}
        for mapping in read_mappings(pid):
            if not mapping.executable or mapping.file in found or _SYSTEM.match(mapping.path):
                continue
            library = self._look(pid, mapping)
            if library is not None:
                found[mapping.file] = library
        return list(found.values())

    def _look(self, pid: int, mapping: Mapping) -> Library | None:
        if mapping.file in self._known:
            return self._known[mapping.file]
        file = find_file(pid, mapping)
        if file is None:
            return None  # the process has ended; another one may have the file
        library = None
        try:
            sites = self._list_sites(file.path, mapping)
        except (OSError, ValueError):
            sites = []
        if sites:
            library = Library(mapping.path, file, sites)
        self._known[mapping.file] = library
        return library

    def _list_sites(self, path: str, mapping: Mapping) -> list[Site]:
        functions = list_functions()
        module = os.path.basename(mapping.path)  # noqa: PTH119  # a name, not a place
        with open_elf(path) as elf:
            symbols = _choose_names(elf.find_symbols(functions))
            codes = [elf.content[s.offset : s.offset + NEEDED_BYTES] for s in symbols]
            processor = elf.processor
            if not symbols and elf.hides_runtime():
                self.hidden.add(module)
        sites = []
        for symbol, code in zip(symbols, codes, strict=True):
            place = find_place(code, self._kernel, processor, cheap_steps=self._cheap_steps)
            sites.append(
                Site(
                    functions[symbol.name], mapping.file, module, symbol.offset + place.skip,
                    place.refused,
                )
            )  # fmt: skip
        return sites


def _choose_names(symbols: Iterable[Symbol]) -> list[Symbol]:
    """One symbol for each place: the shortest of those that name it."""
    chosen: dict[int, Symbol] = {}
    for symbol in sorted(symbols, key=lambda s: (len(s.name), s.name)):
        chosen.setdefault(symbol.offset, symbol)
    return sorted(chosen.values(), key=lambda s: s.name)


def parse_release(release: str) -> tuple[int, int]:
    """A kernel's version in numbers: (6, 18) of 6.18.44-generic."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_programs(pids: Iterable[int]) -> list[int]:
    """Those of the processes that have mapped a driver or a runtime, by the names of files.

    A quick look for when no process was named; a program with a static runtime loads libcuda.
    """
    names = re.compile(r"/lib(?:cuda|cudart|amdhip64|nccl|rccl)(?:-[0-9a-f]+)?\.so")
    found = []
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        except OSError:
            continue
        if names.search(maps):
            found.append(pid)
    return found
