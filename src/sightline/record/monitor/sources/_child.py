"""A monitor of somebody else that prints a line now and then: what it printed last.

The program runs as long as the source does; its lines are read without waiting for them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from sightline.core.metric_names import name_metric
from sightline.record.monitor.sources import NoSource

_MOST = 1 << 20  # bytes of a line or a backlog; more is not a monitor's output
_PATIENCE_S = 2


class LineReader:
    """The complete lines that a program has printed since they were last taken."""

    def __init__(self, command: Sequence[str], hint: str) -> None:
        program = shutil.which(command[0])
        if program is None:
            raise NoSource(f"{command[0]} is not on the PATH{hint}")
        try:
            self._child = subprocess.Popen(  # noqa: S603  # fixed arguments, no shell
                [program, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise NoSource(f"{command[0]} does not start: {error.strerror}") from error
        assert self._child.stdout is not None
        self._file = self._child.stdout
        os.set_blocking(self._file.fileno(), False)
        self._rest = b""
        self._told_end = False

    def take_lines(self) -> list[str]:
        """What came since; the beginning of a line waits for its end."""
        while True:
            try:
                part = os.read(self._file.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not part:
                break
            self._rest = (self._rest + part)[-_MOST:]
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace").rstrip() for line in lines]

    def note_end(self) -> bool:
        """Whether the program has ended; it is said once."""
        is_news = self._child.poll() is not None and not self._told_end
        self._told_end = self._told_end or is_news
        return is_news

    def close(self) -> None:
        """End the program, gently first."""
        self._child.terminate()
        try:
            self._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._file.close()


def read_cells(columns: Sequence[tuple[str, str]], cells: Sequence[str]) -> dict[str, float]:
    """Values by metric, of columns with a name and a unit as the program has them; N/A is none."""
    values = {}
    for (peer, unit), cell in zip(columns, cells, strict=True):
        try:
            number = float(cell)
        except ValueError:
            continue
        metric, _, scale = name_metric(peer, unit)
        values[metric] = number * scale
    return values
