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

from sightline.record.nvml.library import connect_nvml, find_gpus

# NVML's own sampling buffers are filled 10 to 60 times a second (nvmlDeviceGetSamples).
PERIOD_S = 0.05

# How long the end waits for a reading that is being made: one of eight GPUs takes some ms, and a
# driver in trouble holds a call for minutes.
END_S = 5.0

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

# What a device never answers (nvmlReturn_t), so that it is not asked again; others may pass.
_NEVER = {
    2,  # NVML_ERROR_INVALID_ARGUMENT
    3,  # NVML_ERROR_NOT_SUPPORTED
    4,  # NVML_ERROR_NO_PERMISSION
    13,  # NVML_ERROR_FUNCTION_NOT_FOUND
}
_LOST = 15  # NVML_ERROR_GPU_IS_LOST: nothing of it will be answered before the machine restarts
# Functions that drivers before 535 have under another name only.
_FORMER_NAMES = {
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons"
}

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
    """What samples are written to: an event file (`sightline.record.inline.recorder`)."""

    def sample(self, metric: str, at: int, value: float, device: int) -> None:
        """Write one value of a device's metric, at a time on the monotonic clock, ns."""

    def clock_if_due(self, at: int) -> None:
        """Note the wall clock's time beside the monotonic one, now and then."""


@dataclass
class Series:
    """What was read of one device: (time, value) per metric.

    `failures` counts why a metric was not read, by the metric; `problem` says why nothing is read
    (any more), and `lost_ns` from when on, if it was read before.
    """

    name: str
    readings: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    failures: dict[str, dict[str, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    problem: str | None = None
    lost_ns: int | None = None


class Sampler:
    """Reads all GPUs every `period_s` on a thread of its own.

    `file_of` gives the event file that a device's readings go to, or None. `cost_ns` is the time
    that the readings took.
    """

    def __init__(
        self, file_of: Callable[[int], SampleFile | None], period_s: float = PERIOD_S
    ) -> None:
        self._nvml = connect_nvml()
        self._period_s = period_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-nvml")
        self.cost_ns = 0
        gpus = find_gpus(self._nvml)
        self._handles = [gpu.handle for gpu in gpus]
        self.devices = [Series(gpu.name, problem=gpu.problem) for gpu in gpus]
        self._files = [None if gpu.problem else file_of(gpu.number) for gpu in gpus]
        self._at, self._asked_ns = 0, now()  # the device that is being asked, and since when
        self.began = self.ended = now()

    def start(self) -> Sampler:
        """Begin to sample; the first reading is made before this returns."""
        self.began = now()
        self.read()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Make one last reading, and end; none where NVML does not answer any more."""
        self._ended.set()
        self.wait(END_S)
        if self._thread.is_alive():
            self._give_up()
        else:
            self.read()
        self.ended = now()

    def wait(self, seconds: float) -> None:
        """Wait for the thread to end, if it was started."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _give_up(self) -> None:
        """Note whose call is not coming back, and that no device was read since it was made."""
        for index, device in enumerate(self.devices):
            if device.problem is None:
                held = index != self._at
                of = f"GPU {self._at}: " if held else ""
                device.problem = f"{of}NVML did not answer for {END_S:g} s"
                device.lost_ns = self._asked_ns

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            self.read()

    def read(self) -> None:
        """Read every metric of every device once; what a device refuses is not asked again."""
        began = now()
        for index, device in enumerate(self.devices):
            for metric, function, arguments, value_of in _READINGS:
                if device.problem is not None:
                    break
                if metric in device.refused:
                    continue
                self._at, self._asked_ns = index, (at := now())
                answer = self._ask(index, metric, function, arguments)
                if self._is_over():
                    return
                if answer is None:
                    continue
                value = value_of(answer)
                device.readings.setdefault(metric, []).append((at, value))
                file = self._files[index]
                if file is not None:
                    file.sample(metric, at, value, index)
        self.cost_ns += now() - began
        for file in self._files:
            if file is not None:
                file.clock_if_due(began)

    def _is_over(self) -> bool:
        """Whether this is the thread, and its answer came when nobody waited any more."""
        return self._ended.is_set() and threading.current_thread() is self._thread

    def _ask(self, index: int, metric: str, function: str, arguments: tuple[Any, ...]) -> Any:
        """NVML's answer, or None where there is none, which is noted."""
        device = self.devices[index]
        try:
            return self._call(function, self._handles[index], *arguments)
        except self._nvml.NVMLError as error:
            if error.value == _LOST:
                device.problem, device.lost_ns = str(error), now()
                return None
            if error.value in _NEVER:
                device.refused.add(metric)
            counts = device.failures.setdefault(metric, {})
            counts[str(error)] = counts.get(str(error), 0) + 1
        return None

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(*arguments)
        except (AttributeError, self._nvml.NVMLError_FunctionNotFound):
            former = getattr(self._nvml, _FORMER_NAMES.get(function, ""), None)
            if former is None:
                raise self._nvml.NVMLError(13) from None  # the binding is older than the function
            return former(*arguments)
