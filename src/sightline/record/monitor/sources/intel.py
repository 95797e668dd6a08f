"""Intel GPUs by what `xpu-smi dump` prints.

Metrics by number (xpu-smi's user guide, `dump -m`): 0 utilization, 1 power, 2 frequency, 3 core
temperature, 4 memory temperature, 5 memory used in per cent, 8 energy, 17 memory's bandwidth, 18
memory used in MiB, 22 compute engines, 31 to 33 vector engines active, stalled, idle. xpu-smi 2.0
takes the numbers under other options, and has other titles (intel/xpumanager, cmd_dump.cpp).
"""

from __future__ import annotations

import csv
import subprocess

from sightline.record.monitor.readings import GPU, Answer, Device, Entity, Event, Reading
from sightline.record.monitor.sources._child import LineReader, read_cells

_METRICS = "0,1,2,3,4,8,17,18"
_PATIENCE_S = 2


def open_source(first_device: int = 0) -> IntelSource:
    """`xpu-smi`, started. Raises NoSource."""
    return IntelSource(
        LineReader(_choose_command(), " (Intel's XPU System Management Interface)"), first_device
    )


def _choose_command() -> list[str]:
    """A line a second for each GPU, as this xpu-smi takes it: -m and -i went with 2.0."""
    try:
        told = subprocess.run(
            ["xpu-smi", "dump", "--help"],  # noqa: S607  # the one that is on the PATH
            capture_output=True, text=True, timeout=_PATIENCE_S, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    if "--interval" in told:
        # Without --format, columns are padded where standard input is a terminal.
        return ["xpu-smi", "dump", "-d", "-1", "--metrics", _METRICS, "--interval", "1",
                "--format", "csv"]  # fmt: skip
    return ["xpu-smi", "dump", "-d", "-1", "-m", _METRICS, "-i", "1"]


class IntelSource:
    """The lines of each round."""

    name = "intel"

    def __init__(self, lines: LineReader, first_device: int) -> None:
        self._lines = lines
        self._first = first_device
        self._columns: list[tuple[str, str]] = []
        self._known: dict[int, Device] = {}

    def list_devices(self) -> list[Device]:
        """Those that were printed so far."""
        return list(self._known.values())

    def close(self) -> None:
        """End xpu-smi."""
        self._lines.close()

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """What was printed since the last round."""
        del steady_ns
        answer = Answer()
        for line in self._lines.take_lines():
            cells = next(csv.reader([line], skipinitialspace=True), [])
            if cells[:2] == ["Timestamp", "DeviceId"]:
                parts = [cell.partition(" (") for cell in cells]
                self._columns = [(head, unit.rstrip(")")) for head, _, unit in parts]
            elif len(cells) == len(self._columns) and cells[1:2] and cells[1].isdecimal():
                number = self._first + int(cells[1])
                self._known.setdefault(number, Device(number, "intel", "Intel GPU"))
                values = read_cells(self._columns[2:], cells[2:])
                answer.readings.append(Reading(Entity(GPU, number), wall_ns, values))
        if self._lines.note_end():
            text = "xpu-smi has ended"
            answer.events.append(Event(wall_ns, "source-ended", Entity(GPU), text))
        return answer
