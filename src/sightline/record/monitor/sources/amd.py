"""AMD GPUs by what the driver amdgpu shows in sysfs.

Files and units: https://docs.kernel.org/gpu/amdgpu/thermal.html and .../driver-misc.html. No
library and no ROCm is needed; there are no pipes and no SM activity in it.
"""

from __future__ import annotations

from pathlib import Path

from sightline.record.monitor.readings import GPU, Answer, Device, Entity, Reading
from sightline.record.monitor.sources import NoSource
from sightline.record.monitor.sources._sysfs import SYSTEM, read_number, read_text

_AMD = "0x1002"
# Of the device's folder: metric, file, factor.
_FILES = (
    ("GPU utilization", "gpu_busy_percent", 1.0),
    ("memory utilization", "mem_busy_percent", 1.0),
    ("memory used", "mem_info_vram_used", 1.0),
    ("memory total", "mem_info_vram_total", 1.0),
    ("PCIe width", "current_link_width", 1.0),
    ("PCIe replays", "pcie_replay_count", 1.0),
)
# Of its hwmon folder; power1_input is what newer ones have instead of power1_average.
_MONITORED = (
    ("instantaneous power", "power1_input", 1e-6),
    ("average power", "power1_average", 1e-6),
    ("power limit", "power1_cap", 1e-6),
    ("SM clock", "freq1_input", 1e-6),
    ("memory clock", "freq2_input", 1e-6),
)
_TEMPERATURES = {"edge": "temperature", "junction": "junction temperature",
                 "mem": "memory temperature"}  # fmt: skip


def open_source(first_device: int = 0, root: Path = SYSTEM) -> AmdSource:
    """The GPUs of the driver amdgpu. Raises NoSource."""
    cards = sorted(
        (root / "class/drm").glob("card[0-9]*"), key=lambda path: (len(path.name), path.name)
    )
    folders = [
        card / "device"
        for card in cards
        if "-" not in card.name
        and read_text(card / "device/vendor") == _AMD
        and (card / "device/mem_info_vram_total").exists()
    ]
    if not folders:
        raise NoSource("there is no GPU of the driver amdgpu (/sys/class/drm)")
    return AmdSource(folders, first_device)


class AmdSource:
    """All GPUs, in order of their cards."""

    name = "amd"

    def __init__(self, folders: list[Path], first_device: int) -> None:
        self._folders = list(enumerate(folders, first_device))
        self._devices = [
            Device(
                number,
                "amd",
                read_text(folder / "product_name") or "AMD GPU",
                read_text(folder / "unique_id") or "",
                folder.resolve().name,
            )
            for number, folder in self._folders
        ]

    def list_devices(self) -> list[Device]:
        """The GPUs by their cards; the name where the board has one."""
        return self._devices

    def close(self) -> None:
        """Nothing is open."""

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round."""
        del steady_ns
        answer = Answer()
        for number, folder in self._folders:
            reading = Reading(Entity(GPU, number), wall_ns)
            for metric, file, scale in _FILES:
                _take(reading, metric, folder / file, scale)
            monitor = next(iter(sorted((folder / "hwmon").glob("hwmon*"))), None)
            if monitor is not None:
                for metric, file, scale in _MONITORED:
                    _take(reading, metric, monitor / file, scale)
                for label in monitor.glob("temp*_label"):
                    known = _TEMPERATURES.get(read_text(label) or "")
                    if known is not None:
                        file = label.name.replace("_label", "_input")
                        _take(reading, known, monitor / file, 1e-3)
            values = reading.values
            # MI300 has no sensor at the edge.
            if "temperature" not in values and "junction temperature" in values:
                values["temperature"] = values["junction temperature"]
            power = values.get("average power", values.get("instantaneous power"))
            if power is not None:
                values["power"] = power
            if {"memory total", "memory used"} <= values.keys():
                values["memory free"] = values["memory total"] - values["memory used"]
            answer.readings.append(reading)
        return answer


def _take(reading: Reading, metric: str, file: Path, scale: float) -> None:
    number = read_number(file)
    if number is not None:
        reading.values[metric] = number * scale
