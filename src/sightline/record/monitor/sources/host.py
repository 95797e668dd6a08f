"""CPUs, memory, disks and network of the host, by psutil."""

from __future__ import annotations

from typing import Any

import psutil

from sightline.record.monitor.readings import HOST, Answer, Device, Entity, Rates, Reading

_ENTITY = Entity(HOST)


def open_source(first_device: int = 0) -> HostSource:
    """Always there."""
    del first_device
    return HostSource()


class HostSource:
    """The host as a whole."""

    name = "host"

    def __init__(self) -> None:
        self._rates = Rates()
        self._times: Any = None

    def list_devices(self) -> list[Device]:
        """None: the host is not a device."""
        return []

    def close(self) -> None:
        """Nothing is open."""

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round; shares and rates from the second on."""
        reading = Reading(_ENTITY, wall_ns)
        values = reading.values
        values.update(self._read_cpus())
        memory = psutil.virtual_memory()
        values["host memory used"] = float(memory.total - memory.available)
        values["host memory total"] = float(memory.total)
        values["swap used"] = float(psutil.swap_memory().used)
        values["load"] = psutil.getloadavg()[0]
        values["CPUs"] = float(psutil.cpu_count() or 0)
        for metric, count in _count_bytes().items():
            rate = self._rates.measure(_ENTITY, metric, steady_ns, count)
            if rate is not None:
                values[metric] = rate
        return Answer([reading])

    def _read_cpus(self) -> dict[str, float]:
        """Shares of the time of all CPUs since the last round; guests' is in user's (proc(5))."""
        times = psutil.cpu_times()
        last, self._times = self._times, times
        if last is None:
            return {}
        whole = sum(times[:8]) - sum(last[:8])
        waiting = getattr(times, "iowait", 0.0) - getattr(last, "iowait", 0.0)
        idle = times.idle - last.idle + waiting
        # The kernel's iowait may go back (proc(5)): such a round says nothing.
        if whole <= 0 or not 0 <= waiting <= whole or not 0 <= idle <= whole:
            return {}
        return {
            "CPU utilization": 100 * (whole - idle) / whole,
            "CPU waiting for I/O": 100 * waiting / whole,
        }


def _count_bytes() -> dict[str, float]:
    """Bytes of all disks, and of all interfaces but the loopback's, since the host's start."""
    counts: dict[str, float] = {}
    disks = psutil.disk_io_counters(nowrap=False)
    if disks is not None:
        counts |= {"disk read": disks.read_bytes, "disk written": disks.write_bytes}
    cards = psutil.net_io_counters(pernic=True, nowrap=False)
    outside = [card for name, card in cards.items() if name != "lo"]
    if outside:
        counts["network received"] = sum(card.bytes_recv for card in outside)
        counts["network sent"] = sum(card.bytes_sent for card in outside)
    return {metric: float(count) for metric, count in counts.items()}
