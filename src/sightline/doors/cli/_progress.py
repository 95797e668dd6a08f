"""One line on a terminal's stderr while recordings are read; nothing anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from sightline.core.talk import CLEAR
from sightline.core.text import fit_text
from sightline.core.units import format_bytes, format_rate
from sightline.doors.cli._edge import write_raw
from sightline.opening.paths import Looking, OneOfMany

QUIET_S = 1.0  # work under a second shows nothing
EVERY_S = 0.2
EVERY_LINE_S = 5.0  # where nobody looks at a terminal (ours)


class Progress:
    """Bytes, rate and time left of the file that is being read; or how many of a `unit`."""

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        *,
        unit: str | None = None,
    ) -> None:
        self._stream, self._clock, self._unit = stream, clock, unit
        self._live = stream.isatty()
        self._began = clock()
        self._file = ""
        self._file_began = self._next = self._began
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            write_raw(self._stream, CLEAR)
            self._stream.flush()

    def __call__(self, file: str, done: int, total: int) -> None:
        counts = isinstance(file, Looking)
        if not self._live and not (counts or isinstance(file, OneOfMany)):
            return
        now = self._clock()
        if file != self._file:
            self._file, self._file_began = file, now
        if now < self._next or now - self._began < (QUIET_S if self._live else EVERY_LINE_S):
            return
        if not self._live:  # a log, or a pipe: lines that stay
            self._next = now + EVERY_LINE_S
            line = self._count(now, done, total) if counts else f"reading {file}"
            self._stream.write(f"sightline: {line}\n")
            self._stream.flush()
            return
        self._next = now + EVERY_S
        self._shown = True
        write_raw(self._stream, CLEAR)
        line = self._count(now, done, total) if counts else self._line(now, done, total)
        self._stream.write(line)
        self._stream.flush()

    def _line(self, now: float, done: int, total: int) -> str:
        took = max(now - self._file_began, 1e-9)
        rate = done / took
        left = (total - done) / rate if rate else 0.0
        if self._unit is not None:
            return f"{done:,} of {total:,} {self._unit}  {left:.0f} s left"
        name = fit_text(Path(self._file).name, 34)
        share = 100 * done // max(total, 1)
        # Of what is read within one line's time, neither a rate nor what is left means anything.
        pace = f"  {format_rate(rate)}  {left:.0f} s left" if took >= EVERY_S else ""
        return f"{name}  {share:3d} % of {format_bytes(total)}{pace}"

    def _count(self, now: float, done: int, total: int) -> str:
        """Entries of folders that were looked at; Ctrl-C ends that at once."""
        whole = left = ""
        if total:
            whole = f" of {total:,}"
            took = now - self._file_began
            left = f"  {took * (total - done) / done:.0f} s left" if done and took else ""
        return f"{self._file}: {done:,}{whole}{left}  (Ctrl-C stops)"
