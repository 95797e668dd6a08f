"""GPUs sampled over time through NVML: power, energy, clocks, memory, utilisation, limits.

Functions and units: NVML API reference (https://docs.nvidia.com/deploy/nvml-api/). The library is
called through nvidia-ml-py, NVIDIA's own binding. Nothing on the GPU is changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sightline.inline.recorder import Recorder, now

# NVML's own sampling buffers are filled 10 to 60 times a second (nvmlDeviceGetSamples).
PERIOD_S = 0.05

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReasons).
REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "thermal (software)", 0x40: "thermal (hardware)",
    0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
# Those that make a busy GPU slower than it could be.
LIMITING = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

# Metric as the run names it, and how it is read: function of NVML, then of its answer, scale.
_READINGS: tuple[tuple[str, str, tuple[Any, ...], Callable[[Any], float]], ...] = (
    ("power [W]", "nvmlDeviceGetPowerUsage", (), lambda v: v / 1e3),  # mW
    ("energy [J]", "nvmlDeviceGetTotalEnergyConsumption", (), lambda v: v / 1e3),  # mJ
    ("SM clock [MHz]", "nvmlDeviceGetClockInfo", (1,), float),
    ("memory clock [MHz]", "nvmlDeviceGetClockInfo", (2,), float),
    ("memory used [bytes]", "nvmlDeviceGetMemoryInfo", (), lambda v: float(v.used)),
    ("GPU utilisation [%]", "nvmlDeviceGetUtilizationRates", (), lambda v: float(v.gpu)),
    ("memory utilisation [%]", "nvmlDeviceGetUtilizationRates", (), lambda v: float(v.memory)),
    ("temperature [C]", "nvmlDeviceGetTemperature", (0,), float),
    ("clock event reasons [bits]", "nvmlDeviceGetCurrentClocksEventReasons", (), float),
)


class Unavailable(Exception):
    """NVML cannot be used here; the text says why and what to do."""


def connect() -> Any:
    """The binding, initialised. Raises Unavailable."""
    try:
        import pynvml
    except ImportError as error:
        raise Unavailable("nvidia-ml-py is not installed:  pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML does not start: {error}") from error
    return pynvml


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
        self, file_of: Callable[[int], Recorder | None], period_s: float = PERIOD_S
    ) -> None:
        self._nvml = connect()
        self._files: list[Recorder | None] = []
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


def energy(readings: list[tuple[int, float]], power: list[tuple[int, float]]) -> dict[str, float]:
    """Energy in J from the counter, its error bar, and the integral of the power beside it.

    The counter moves in jumps. Each end of the interval may be wrong by one jump, so the error bar
    is twice the longest time between two changes, at the highest power seen. The sensor's own
    accuracy, 5 % (NVML API reference, nvmlDeviceGetPowerUsage), is not in it.
    """
    answer: dict[str, float] = {}
    if len(readings) > 1:
        answer["energy_j"] = readings[-1][1] - readings[0][1]
        changes = [b[0] for a, b in pairwise(readings) if b[1] != a[1]]
        edges = [readings[0][0], *changes, readings[-1][0]]
        longest = max(b - a for a, b in pairwise(edges))
        if power:
            answer["energy_error_j"] = 2 * longest / 1e9 * max(v for _, v in power)
    if len(power) > 1:
        answer["energy_by_power_j"] = sum(
            (b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in pairwise(power)
        )
    return answer


def summary(sampler: Sampler) -> list[dict[str, Any]]:
    """One dict per device: means, extremes, energy, and the share of samples that were limited."""
    answer = []
    for index, device in enumerate(sampler.devices):
        row: dict[str, Any] = {"device": index, "name": device.name}
        for metric, values in device.readings.items():
            if metric in ("energy [J]", "clock event reasons [bits]"):
                continue
            numbers = [v for _, v in values]
            row[metric] = {
                "mean": sum(numbers) / len(numbers), "min": min(numbers), "max": max(numbers),
                "samples": len(numbers),
            }  # fmt: skip
        row.update(
            energy(device.readings.get("energy [J]", []), device.readings.get("power [W]", []))
        )
        bits = [int(v) for _, v in device.readings.get("clock event reasons [bits]", [])]
        if bits:
            row["limited_pct"] = {
                text: 100 * sum(1 for b in bits if b & bit) / len(bits)
                for bit, text in REASONS.items()
                if bit & LIMITING and any(b & bit for b in bits)
            }
        answer.append(row)
    return answer


class gpu_monitor:  # used as a context manager
    """`with sl.gpu_monitor() as m:` samples the GPUs in the block; `m.summary()` says what it saw.

    The summary has `available` (and `reason` where it is False), `seconds`, and `devices` as
    `summary` gives them. The samples go into the run that is recorded, if one is.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._sampler: Sampler | None = None
        self._reason = "it was not entered"

    def __enter__(self) -> gpu_monitor:
        from sightline.inline import session

        file = session.recorder() if session.state.on else None
        try:
            self._sampler = Sampler(lambda _: file, self._period_s).start()
        except Unavailable as error:
            self._reason = str(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.stop()

    def summary(self) -> dict[str, Any]:
        """What was seen so far."""
        sampler = self._sampler
        if sampler is None:
            return {"available": False, "reason": self._reason, "devices": []}
        end = sampler.ended if sampler.ended > sampler.began else now()
        return {
            "available": True, "reason": None, "seconds": (end - sampler.began) / 1e9,
            "cost_seconds": sampler.cost_ns / 1e9, "devices": summary(sampler),
        }  # fmt: skip
