"""InfiniBand and RoCE ports, by sysfs.

Counters: https://docs.kernel.org/admin-guide/abi-stable.html, /sys/class/infiniband; data are
counted in units of four octets.
"""

from __future__ import annotations

from pathlib import Path

from sightline.record.monitor.readings import LINK, Answer, Device, Entity, Rates, Reading
from sightline.record.monitor.sources import NoSource
from sightline.record.monitor.sources._sysfs import SYSTEM, read_number

_WORD_BYTES = 4
_RATES = (("link received", "port_rcv_data"), ("link sent", "port_xmit_data"))
_COUNTS = (("link errors", "symbol_error"), ("link downed", "link_downed"))


def open_source(first_device: int = 0, root: Path = SYSTEM) -> LinkSource:
    """The ports that there are. Raises NoSource."""
    del first_device
    ports = sorted((root / "class/infiniband").glob("*/ports/*/counters"))
    if not ports:
        raise NoSource("there is no InfiniBand or RoCE port (/sys/class/infiniband)")
    return LinkSource(ports)


class LinkSource:
    """All ports."""

    name = "links"

    def __init__(self, ports: list[Path]) -> None:
        self._rates = Rates()
        self._ports = [
            (Entity(LINK, None, f"{p.parents[2].name} port {p.parent.name}"), p) for p in ports
        ]

    def list_devices(self) -> list[Device]:
        """None: a port is not a device."""
        return []

    def close(self) -> None:
        """Nothing is open."""

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round; rates from the second on."""
        answer = Answer()
        for entity, folder in self._ports:
            reading = Reading(entity, wall_ns)
            for metric, file in _RATES:
                words = read_number(folder / file)
                if words is not None:
                    count = words * _WORD_BYTES
                    rate = self._rates.measure(entity, metric, steady_ns, count)
                    if rate is not None:
                        reading.values[metric] = rate
            for metric, file in _COUNTS:
                count_of = read_number(folder / file)
                if count_of is not None:
                    reading.values[metric] = count_of
            answer.readings.append(reading)
        return answer
