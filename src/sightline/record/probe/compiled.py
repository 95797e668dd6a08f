"""Functions that a program compiled itself, as it tells perf: /tmp/perf-PID.map.

A line of each has its start, its size and its name (Linux, tools/perf/Documentation/
jit-interface.txt). CPython 3.12 and newer write one for each Python function with `-X perf`
or PYTHONPERFSUPPORT=1 (docs.python.org/3/howto/perf_profiling.html); so do node, Java's
perf-map-agent and others.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from sightline.core.foreign_files import Descriptor, open_file, open_folder
from sightline.record.probe.processes import find_own_number

_MOST_BYTES = 256 << 20  # three million functions
_PIECE = 1 << 20


def place_map(pid: int) -> str:
    """Where a process puts the names of what it compiled, by its number as it sees it itself."""
    return f"/tmp/perf-{pid}.map"  # noqa: S108  # as everybody who writes one has it


class CompiledFunctions:
    """The map of one process, read on as it grows.

    Memory is used anew, and a file is written on: what an earlier process of the same number left
    there stands before this one's lines. So the last line that speaks of an address is right.
    """

    def __init__(self, root: str, pid: int) -> None:
        """`root`: the process's root folder; `pid`: its number here."""
        self._root, self._place = root or "/", Path(place_map(find_own_number(pid)))
        self._folder: Descriptor | None = None
        self._starts: list[int] = []
        self._functions: list[_Function] = []
        self._read, self._rest = 0, b""

    def find(self, address: int) -> str | None:
        """The name of the function that an address lies in; None where the map has none (yet)."""
        self._read_more()
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._functions[at].end:
            return None
        return self._functions[at].name

    def _read_more(self) -> None:
        """Read what was added."""
        added: list[_Function] = []
        # What was read of it before an error is kept.
        with contextlib.suppress(OSError):
            if self._folder is None:
                root = Descriptor(os.open(self._root, os.O_PATH | os.O_CLOEXEC))
                self._folder = open_folder(str(self._place.parent), root)
            state = os.stat(self._place.name, dir_fd=self._folder.number, follow_symlinks=False)
            if state.st_size == self._read:
                return
            # A stranger may have put another file, a link or a pipe there.
            file = open_file(self._place.name, self._folder)
            while self._read < _MOST_BYTES and (piece := os.pread(file.number, _PIECE, self._read)):
                self._read += len(piece)
                *lines, self._rest = (self._rest + piece).split(b"\n")
                added.extend(made for line in lines if (made := _read_line(line)) is not None)
        if added:
            self._functions = _keep_last([*self._functions, *added])
            self._starts = [function.start for function in self._functions]


class _Function(NamedTuple):
    start: int
    end: int
    name: str


def _read_line(line: bytes) -> _Function | None:
    start, _, rest = line.partition(b" ")
    size, _, name = rest.partition(b" ")
    try:
        first = int(start, 16)
        return _Function(first, first + int(size, 16), name.decode(errors="replace"))
    except ValueError:
        return None  # no line of a map


def _keep_last(functions: list[_Function]) -> list[_Function]:
    """By start, without those that a later one lies upon: their memory was used anew."""
    gone: set[int] = set()
    first: list[tuple[int, int]] = []  # order and end of what may reach here, the first on top
    last: list[tuple[int, int]] = []  # likewise, the last on top
    by_start = sorted(enumerate(functions), key=lambda at: at[1].start)
    for order, function in by_start:
        while first and first[0][0] < order:
            earlier, end = heappop(first)
            if end > function.start:
                gone.add(earlier)
        while last and last[0][1] <= function.start:
            heappop(last)
        if last and -last[0][0] > order:
            gone.add(order)
        heappush(first, (order, function.end))
        heappush(last, (-order, function.end))
    return [function for order, function in by_start if order not in gone]
