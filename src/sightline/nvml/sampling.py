"""GPUs sampled over time through NVML: power, energy, clocks, memory, utilization, limits.

Functions and units: NVML API reference (https://docs.nvidia.com/deploy/nvml-api/). The library is
called through nvidia-ml-py, NVIDIA's own binding. Nothing on the GPU is changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns as now
from typing import Any, Protocol

from sightline.nvml.library import connect_nvml

# NVML's own sampling buffers are filled 10 to 60 times a second (nvmlDeviceGetSamples).
PERIOD_S = 0.05

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReasons).
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
# Those that make a busy GPU slower than it could be.
LIMITING = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

# Metric as the run names it, and how it is read: function of NVML, then of its answer, scale.
_READINGS: tuple[tuple[str, str, tuple[Any, ...], Callable[[Any], float]], ...] = (
    ("power [W]", "nvmlDeviceGetPowerUsage", (), lambda v: v / 1e3),  # mW
    ("energy [J]", "nvmlDeviceGetTotalEnergyConsumption", (), lambda v: v / 1e3),  # mJ
    ("SM clock [MHz]", "nvmlDeviceGetClockInfo", (1,), float),
    ("memory clock [MHz]", "nvmlDeviceGetClockInfo", (2,), float),
    ("memory used [bytes]", "nvmlDeviceGetMemoryInfo", (), lambda v: float(v.used)),
    ("GPU utilization [%]", "nvmlDeviceGetUtilizationRates", (), lambda v: float(v.gpu)),
    ("memory utilization [%]", "nvmlDeviceGetUtilizationRates", (), lambda v: float(v.memory)),
    ("temperature [C]", "nvmlDeviceGetTemperature", (0,), float),
    ("clock event reasons [bits]", "nvmlDeviceGetCurrentClocksEventReasons", (), float),
)


class SampleFile(Protocol):
    """What samples are written to: an event file (`sightline.inline.recorder`)."""

    def sample(self, metric: str, at: int, value: float, device: int) -> None:
        """Write one value of a device's metric, at a time on the monotonic clock, ns."""

    def clock_if_due(self, at: int) -> None:
        """Note the wall clock's time beside the monotonic one, now and then."""


@dataclass
class Series:
    """What was read of one device: (time, value) per metric."""

    name: str
    readings: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


class Sampler:
    """Reads all GPUs every `period_s` on a thread of its own.

    `file_of` gives the event file that a device's readings go to, or None. `cost_ns` is the time
    that the readings took.
    """

    def __init__(
        self, file_of: Callable[[int], SampleFile | None], period_s: float = PERIOD_S
    ) -> None:
        self._nvml = connect_nvml()
        self._files: list[SampleFile | None] = []
        self._period_s = period_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-nvml")
        self._handles = []
        self.devices: list[Series] = []
        self.cost_ns = 0
        self._refused: set[tuple[int, str]] = set()
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            name = self._nvml.nvmlDeviceGetName(handle)
            self._handles.append(handle)
            self.devices.append(Series(name.decode() if isinstance(name, bytes) else name))
            self._files.append(file_of(index))
        self.began = self.ended = now()

    def start(self) -> Sampler:
        """Begin to sample; the first reading is made before this returns."""
        self.began = now()
        self.read()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Make one last reading, and end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self.read()
        self.ended = now()

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            self.read()

    def read(self) -> None:
        """Read every metric of every device once; what a device refuses is not asked again."""
        began = now()
        for index, handle in enumerate(self._handles):
            for metric, function, arguments, value_of in _READINGS:
                if (index, metric) in self._refused:
                    continue
                at = now()
                try:
                    value = value_of(getattr(self._nvml, function)(handle, *arguments))
                except (self._nvml.NVMLError, AttributeError):
                    self._refused.add((index, metric))
                    continue
                self.devices[index].readings.setdefault(metric, []).append((at, value))
                file = self._files[index]
                if file is not None:
                    file.sample(metric, at, value, index)
        self.cost_ns += now() - began
        for file in self._files:
            if file is not None:
                file.clock_if_due(began)
