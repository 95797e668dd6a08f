"""Intel GPUs by what `xpu-smi dump` prints.

Metrics by number (xpu-smi's user guide, `dump -m`): 0 utilization, 1 power, 2 frequency, 3 core
temperature, 4 memory temperature, 5 memory used in per cent, 8 energy, 17 memory's bandwidth, 18
memory used in MiB, 22 compute engines, 31 to 33 vector engines active, stalled, idle.
"""

from __future__ import annotations

import csv

from sightline.record.monitor.readings import GPU, Answer, Device, Entity, Event, Reading
from sightline.record.monitor.sources._child import LineReader, read_cells

_METRICS = "0,1,2,3,4,8,17,18"


def open_source(first_device: int = 0) -> IntelSource:
    """`xpu-smi`, started. Raises NoSource."""
    command = ["xpu-smi", "dump", "-d", "-1", "-m", _METRICS, "-i", "1"]
    return IntelSource(
        LineReader(command, " (Intel's XPU System Management Interface)"), first_device
    )


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
