"""NVIDIA GPUs by what `dcgmi dmon` prints, where DCGM's host engine runs.

It is what tells the true use of Volta, Turing and Ampere GPUs; since Hopper NVML does so itself.
Fields by number (dcgm_fields.h): 1001 to 1012, the profiling fields. DCGM's counters of those GPUs
serve one reader: while Nsight or CUPTI has them, there are none here.
"""

from __future__ import annotations

import re

from sightline.record.monitor.readings import GPU, INSTANCE, Answer, Device, Entity, Event, Reading
from sightline.record.monitor.sources._child import LineReader, read_cells

# docs.nvidia.com/datacenter/dcgm, "Getting Started".
_INSTALL = (
    " (only GPUs before Hopper need it):  sudo apt-get install datacenter-gpu-manager-4-cuda12; "
    "sudo systemctl start nvidia-dcgm"
)
_FIELDS = "1001,1002,1003,1004,1005,1006,1007,1008,1009,1010,1011,1012"
_ENTITY = re.compile(r"^(GPU-I|GPU) (\d{1,4})\s+(.*)$")


def open_source(first_device: int = 0) -> DcgmSource:
    """`dcgmi`, started. Raises NoSource."""
    del first_device  # DCGM numbers GPUs as NVML does
    command = ["dcgmi", "dmon", "-e", _FIELDS, "-d", "1000"]
    return DcgmSource(LineReader(command, _INSTALL))


class DcgmSource:
    """The lines of each round."""

    name = "dcgm"

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._columns: list[tuple[str, str]] = []
        self._last_line = ""

    def list_devices(self) -> list[Device]:
        """None: NVML lists them."""
        return []

    def close(self) -> None:
        """End dcgmi."""
        self._lines.close()

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """What was printed since the last round."""
        del steady_ns
        answer = Answer()
        for line in self._lines.take_lines():
            if line.startswith("#"):
                self._columns = [(name, "") for name in line.lstrip("#").split()[1:]]
                continue
            found = _ENTITY.match(line)
            if found is None:
                self._last_line = line.strip() or self._last_line
                continue
            number, cells = int(found[2]), found[3].split()
            entity = (
                Entity(GPU, number)
                if found[1] == "GPU"
                else Entity(INSTANCE, None, f"MIG entity {number}")
            )
            if len(cells) == len(self._columns):
                values = read_cells(self._columns, cells)
                answer.readings.append(Reading(entity, wall_ns, values))
        if self._lines.note_end():
            text = f"dcgmi has ended: {self._last_line or 'it said nothing'}"
            answer.events.append(Event(wall_ns, "source-ended", Entity(GPU), text))
        return answer
