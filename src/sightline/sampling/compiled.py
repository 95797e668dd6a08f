"""Functions that a program compiled itself, as it tells perf: /tmp/perf-PID.map.

A line of each has its start, its size and its name (Linux, tools/perf/Documentation/
jit-interface.txt). CPython 3.12 and newer write one for each Python function with `-X perf`
or PYTHONPERFSUPPORT=1 (docs.python.org/3/howto/perf_profiling.html); so do node, Java's
perf-map-agent and others.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right

from sightline.probe.processes import find_own_number

_MOST_BYTES = 256 << 20  # three million functions
_PIECE = 1 << 20


def place_map(pid: int) -> str:
    """Where a process puts the names of what it compiled, by its number as it sees it itself."""
    return f"/tmp/perf-{pid}.map"  # noqa: S108  # as everybody who writes one has it


class CompiledFunctions:
    """The map of one process, read on as it grows."""

    def __init__(self, root: str, pid: int) -> None:
        """`root`: the process's root folder; `pid`: its number here."""
        self.path = root + place_map(find_own_number(pid))
        self._starts: list[int] = []
        self._functions: dict[int, tuple[int, str]] = {}  # by start: end and name
        self._read, self._rest = 0, b""

    def find(self, address: int) -> str | None:
        """The name of the function that an address lies in; None where the map has none (yet)."""
        found = self._find(address)
        return self._find(address) if found is None and self._read_more() else found

    def _find(self, address: int) -> str | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        end, name = self._functions[self._starts[at]]
        return name if address < end else None

    def _read_more(self) -> bool:
        """Read what was added; whether anything was."""
        try:
            # A stranger may have put another file, a link or a pipe there.
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_size == self._read:
                return False
            before = self._read
            while self._read < _MOST_BYTES and (piece := os.pread(file, _PIECE, self._read)):
                self._read += len(piece)
                *lines, self._rest = (self._rest + piece).split(b"\n")
                for line in lines:
                    self._take(line)
        except OSError:
            return False
        finally:
            os.close(file)
        self._starts = sorted(self._functions)
        return self._read > before

    def _take(self, line: bytes) -> None:
        start, _, rest = line.partition(b" ")
        size, _, name = rest.partition(b" ")
        try:
            first = int(start, 16)
            self._functions[first] = first + int(size, 16), name.decode(errors="replace")
        except ValueError:
            return  # no line of a map
