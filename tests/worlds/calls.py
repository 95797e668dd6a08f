"""What a host thread of a simulated program can do, one class for each kind of call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Collective:
    """Communication that starts to move data when all ranks of its group have reached it."""

    key: Hashable
    op: str  # as NCCL names it: AllReduce, AllGather, ReduceScatter, AllToAll, SendRecv
    ranks: tuple[int, ...]
    bytes: int
    sequence: int = 0
    source: int | None = None  # of a message that one rank sends to another


@dataclass(slots=True)
class Work:
    """One thing for the device: a kernel, a copy, a fill, a collective."""

    kind: str  # kernel, memcpy, memset
    name: str
    ns: int
    share: float = 1.0  # of the device's multiprocessors that it needs to itself
    grid: tuple[int, int, int] = (132, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    registers: int = 64
    shared_bytes: int = 0
    bytes: int = 0
    copy: str = ""  # H2D, D2H, D2D
    pageable: bool = False
    collective: Collective | None = None
    clocked: bool = True  # a slower clock makes it longer


@dataclass(slots=True)
class Begin:
    """A range opens on this thread."""

    kind: str  # op, annotation, step, python, os, mpi
    name: str
    args: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class End:
    """The range that was opened last closes."""


@dataclass(slots=True)
class Spend:
    """The thread computes."""

    ns: int


@dataclass(slots=True)
class Call:
    """A call of the GPU's runtime that puts nothing on the device."""

    api: str
    ns: int


@dataclass(slots=True)
class Launch:
    """Put work on a stream; with `blocks`, return when the device has done it."""

    api: str
    ns: int
    stream: int
    works: Sequence[Work]
    graph: int = 0
    blocks: bool = False


@dataclass(slots=True)
class Sync:
    """Wait for the device: for a stream, an event, or (neither) for all of it."""

    api: str
    stream: int | None = None
    event: Hashable = None
    ns: int = 4_000


@dataclass(slots=True)
class Record:
    """Put an event on a stream."""

    event: Hashable
    stream: int
    ns: int = 1_200


@dataclass(slots=True)
class Await:
    """Let a stream wait for an event."""

    event: Hashable
    stream: int
    ns: int = 1_300


@dataclass(slots=True)
class Put:
    """Hand an item to another thread; wait while its queue is full."""

    queue: Hashable
    room: int = 1_000_000


@dataclass(slots=True)
class Get:
    """Take an item from another thread; `waits` is the system call that a wait shows as."""

    queue: Hashable
    waits: str = "pthread_cond_wait"


@dataclass(slots=True)
class Meet:
    """Wait on the host until `count` threads are here, then `ns` for the exchange."""

    key: Hashable
    count: int
    ns: int


@dataclass(slots=True)
class Start:
    """The profiler starts to record this rank."""


Step = Begin | End | Spend | Call | Launch | Sync | Record | Await | Put | Get | Meet | Start
