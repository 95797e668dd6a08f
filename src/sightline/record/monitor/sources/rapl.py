"""Energy of CPUs and their memory, by the kernel's power capping interface (RAPL).

https://docs.kernel.org/power/powercap/powercap.html: energy_uj in microjoules, which wraps at
max_energy_range_uj. Since CVE-2020-8694 only root may read it.
"""

from __future__ import annotations

from pathlib import Path

from sightline.record.monitor.readings import HOST, Answer, Device, Entity, Reading
from sightline.record.monitor.sources import NoSource
from sightline.record.monitor.sources._sysfs import SYSTEM, read_number, read_text

_MICRO = 1e-6


def open_source(first_device: int = 0, root: Path = SYSTEM) -> RaplSource:
    """The zones that there are: packages, and their memory. Raises NoSource."""
    del first_device
    zones = sorted((root / "class/powercap").glob("intel-rapl:*"))
    if not zones:
        raise NoSource("the kernel shows no energy of CPUs (/sys/class/powercap/intel-rapl*)")
    readable = [z for z in zones if read_number(z / "energy_uj") is not None]
    if not readable:
        raise NoSource("the energy of CPUs may be read by root only (CVE-2020-8694)")
    return RaplSource(readable)


class _Zone:
    def __init__(self, folder: Path) -> None:
        parent = folder.parent / folder.name.rpartition(":")[0]
        names = [read_text(f / "name") for f in (parent, folder)]
        self.entity = Entity(HOST, None, " ".join(name for name in names if name))
        self.file = folder / "energy_uj"
        self.range_uj = read_number(folder / "max_energy_range_uj")
        self.last: tuple[int, float] | None = None
        self.used_j = 0.0


class RaplSource:
    """All zones; energy is counted from the first round on."""

    name = "rapl"

    def __init__(self, folders: list[Path]) -> None:
        self._zones = [_Zone(folder) for folder in folders]

    def list_devices(self) -> list[Device]:
        """None: a CPU is not a device here."""
        return []

    def close(self) -> None:
        """Nothing is open."""

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round; power from the second on."""
        answer = Answer()
        for zone in self._zones:
            count = read_number(zone.file)
            if count is None:
                zone.last = None
                continue
            reading = Reading(zone.entity, wall_ns)
            if zone.last is not None and steady_ns > zone.last[0]:
                used = count - zone.last[1]
                if used < 0 and zone.range_uj:
                    used += zone.range_uj
                if used >= 0:
                    zone.used_j += used * _MICRO
                    seconds = (steady_ns - zone.last[0]) / 1e9
                    reading.values["power"] = used * _MICRO / seconds
            zone.last = steady_ns, count
            reading.values["energy"] = zone.used_j
            answer.readings.append(reading)
        return answer
