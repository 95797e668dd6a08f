"""Lines of the source by addresses of code, inlined functions too: DWARF, as addr2line reads it.

binutils' own reader knows all versions of DWARF, compressed sections and split files. It is asked
through a pipe, one program for each file of code, and each address once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import NamedTuple

_UNKNOWN = "??"
# No code lies there: its answer ends the one before it, which has as many lines as functions.
_NOWHERE = (1 << 64) - 1
MOST_FILES = 16  # programs at once (ours)


class Place(NamedTuple):
    """A function, or one that was inlined into it, and where in the source an address is of it."""

    function: str
    file: str | None
    line: int | None


class LineFinder:
    """addr2line of one file, which runs until it is closed."""

    def __init__(self, path: str) -> None:
        """Raises OSError where it cannot be started."""
        program = shutil.which("addr2line")
        if program is None:
            raise FileNotFoundError("addr2line")
        self._process = subprocess.Popen(  # noqa: S603  # fixed arguments, no shell
            # A folder that this process holds open is another one's under the same name.
            [program, "-afi", "-e", path.replace("/proc/self/", f"/proc/{os.getpid()}/", 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def find(self, address: int) -> list[Place]:
        """The innermost function first; none where the file does not say. Raises OSError."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%#x\n%#x\n" % (address, _NOWHERE))
        self._process.stdin.flush()
        self._read()  # the address again
        lines: list[str] = []
        end = f"{_NOWHERE:#018x}"
        while (line := self._read()) != end:
            lines.append(line)
        self._read(), self._read()
        pairs = zip(lines[::2], lines[1::2], strict=False)
        places = [_make_place(function, place) for function, place in pairs]
        return [place for place in places if place is not None]

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokenPipeError("addr2line has ended")
        return line.decode("utf-8", "replace").rstrip("\n")

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=1)
        self._process.kill()
        self._process.wait()


class LineFinders:
    """The finders of several files."""

    def __init__(self) -> None:
        self._finders: dict[str, LineFinder | None] = {}

    def find(self, path: str, address: int) -> list[Place]:
        """What that file says of an address in its image; nothing where nobody can read it."""
        if path not in self._finders and len(self._finders) < MOST_FILES:
            self._finders[path] = None
            with contextlib.suppress(OSError):
                self._finders[path] = LineFinder(path)
        finder = self._finders.get(path)
        if finder is None:
            return []
        try:
            return finder.find(address)
        except (OSError, ValueError):
            finder.close()
            self._finders[path] = None
            return []

    def close(self) -> None:
        """End all."""
        for finder in self._finders.values():
            if finder is not None:
                finder.close()
        self._finders.clear()


def _make_place(function: str, place: str) -> Place | None:
    """From `step` and `/src/heat.c:8 (discriminator 3)`; None where the function is not known."""
    if function == _UNKNOWN:
        return None
    file, _, line = place.partition(" (")[0].rpartition(":")
    known = file != _UNKNOWN and line.isdigit() and int(line) > 0
    return Place(function, file if file != _UNKNOWN else None, int(line) if known else None)
