"""What is known of a node: numbers by name, of each GPU and of the host, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ELSEWHERE = "not in this input"  # why a fact is missing where nothing else is known


class Event(NamedTuple):
    """Something that was reported: of a GPU (its number), a port or the host."""

    kind: str  # xid, device-lost, check-failed, ...
    text: str
    device: int | None = None
    source: str | None = None
    time_ns: int | None = None


@dataclass
class Gpu:
    """One GPU: `values` by the checks' names; `missing` says why a name is not there."""

    number: int
    name: str = ""
    uuid: str = ""
    pci: str = ""
    vendor: str = "nvidia"
    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # "*": for all
    instances: list[str] = field(default_factory=list)  # MIG: UUIDs with their profiles
    processes: list[int] = field(default_factory=list)
    lost: str | None = None  # what it answers instead


class Port(NamedTuple):
    """A port of an InfiniBand or RoCE adapter, by /sys/class/infiniband."""

    name: str  # mlx5_0:1
    state: str  # ACTIVE, DOWN, ...
    physical: str  # LinkUp, ...
    gbit_per_s: float | None
    counters: dict[str, int]


@dataclass
class Node:
    """All that is known of a node, or of what a recording has of one."""

    name: str = ""
    gpus: list[Gpu] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)  # of the host
    texts: dict[str, str] = field(default_factory=dict)  # versions and states of the host
    events: list[Event] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # of the host: why not known
    expected: dict[str, float] = field(default_factory=dict)  # what a person says must be there

    def why_missing(self, name: str) -> str:
        """Why a fact of the host is not known."""
        return self.missing.get(name) or ELSEWHERE
