"""What was around each run: other programs' CPU time, clocks and heat of CPUs and GPUs.

Nothing is changed, and nothing that was disturbed is left out, as leaving out what is slow would be
choosing: it is said beside the answer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from sightline.experiment.measure import Outcome
from sightline.record.nvml.library import Unavailable
from sightline.record.nvml.sampling import LIMITING, Sampler, Series

# NVML's clock and reasons change within tenths of a second, and its readings take 1 ms each.
_PERIOD_S = 0.5
# hwmon's drivers of processors: coretemp (Intel), k10temp and zenpower (AMD), cpu_thermal (Arm).
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_CPUS = Path("/sys/devices/system/cpu")


class Surroundings:
    """Watches the machine while programs run; `close` ends it."""

    def __init__(self, period_s: float = _PERIOD_S) -> None:
        self._sampler: Sampler | None = None
        with contextlib.suppress(Unavailable):
            self._sampler = Sampler(lambda device: None, period_s).start()

    def close(self) -> None:
        """End the thread that reads GPUs."""
        if self._sampler is not None:
            self._sampler.stop()

    def watch(self, run: Callable[[], Outcome]) -> tuple[Outcome, dict[str, Any]]:
        """What a run came to, and what was around it; what cannot be read is null."""
        load, before = psutil.getloadavg()[0], psutil.cpu_times()
        began = time.monotonic_ns()
        outcome = run()
        ended, after = time.monotonic_ns(), psutil.cpu_times()
        seconds = max(outcome.wall_ns / 1e9, 1e-9)
        others = (_sum_busy(after) - _sum_busy(before)) - outcome.cpu_ns / 1e9
        return outcome, {
            "load": load,
            # The kernel counts in ticks of 10 ms, of which a short run is a few.
            "others_cpus": max(others / seconds, 0.0) if seconds >= 0.1 else None,
            "stolen_cpus": max(getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0), 0.0)
            / seconds,
            "cpu_mhz": _read_clock(),
            "cpu_celsius": _read_heat(),
            "gpus": [] if self._sampler is None else _read_gpus(self._sampler, began, ended),
        }


def _sum_busy(times: Any) -> float:
    """Seconds of all CPUs in programs and the kernel; guests are in the user's time (proc(5))."""
    return float(times.user + times.system + getattr(times, "nice", 0.0))


def _read_clock() -> float | None:
    """The mean clock of the CPUs as a run has just ended, MHz."""
    found = []
    for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(path.read_text()) / 1e3)
    return fmean(found) if found else None


def _read_heat() -> float | None:
    """The hottest CPU sensor, degrees Celsius."""
    sensors: dict[str, Any] = getattr(psutil, "sensors_temperatures", dict)()
    found = [one.current for name in _CPU_SENSORS for one in sensors.get(name, ())]
    return max(found, default=None)


def _read_gpus(sampler: Sampler, began: int, ended: int) -> list[dict[str, Any]]:
    """Of each GPU its mean SM clock, its heat, and how often something held it back."""
    return [_read_gpu(device, began, ended) for device in sampler.devices]


def _read_gpu(device: Series, began: int, ended: int) -> dict[str, Any]:
    def read(metric: str) -> list[float]:
        series = list(device.readings.get(metric, ()))  # the thread adds to it
        return [value for at, value in reversed(series) if began <= at <= ended]

    clocks, heat = read("SM clock [MHz]"), read("temperature [C]")
    limits = [bool(int(bits) & LIMITING) for bits in read("clock event reasons [bits]")]
    return {
        "name": device.name,
        "sm_mhz": fmean(clocks) if clocks else None,
        "celsius": max(heat, default=None),
        "limited_pct": 100 * fmean(limits) if limits else None,
        "utilization_pct": _mean(read("GPU utilization [%]")),
    }


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
