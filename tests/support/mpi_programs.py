"""MPI programs played rank by rank, with what each rank truly waited for; written as OTF2 archives.

The player knows nothing of how waits are found: a receive goes on when its message is there, a
synchronous send when its receive is posted, a collective when the last rank has come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

LATENCY = 700  # ns, from when both sides are there until a call returns
POST = 90  # ns, of a call that returns at once


@dataclass
class Program:
    """Ranks with their clocks, what they did, and the truth: (pattern, rank, peer) -> ns."""

    ranks: int
    waits: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    now: list[int] = field(default_factory=list)
    # Of each rank: (time, order, what is written down: its name and arguments).
    events: list[list[tuple[int, str, tuple[Any, ...]]]] = field(default_factory=list)
    _requests: int = 0

    def __post_init__(self) -> None:
        self.now = [1000 * rank for rank in range(self.ranks)]
        self.events = [[] for _ in range(self.ranks)]

    def compute(self, rank: int, ns: int) -> None:
        """The rank works by itself."""
        self.now[rank] += ns

    def send(self, source: int, target: int, tag: int, how: str, work: int = 0) -> None:
        """One message. `how`: eager, synchronous, or early: its receive is posted `work` before."""
        begun = self.now[source]
        posted = waited = self.now[target]
        self._requests += 1
        if how == "early":
            waited = posted + POST + work
            self._call(target, "MPI_Irecv", posted, posted + POST, ("irecv", self._requests))
        there = max(begun, waited)
        if how == "synchronous":
            self._wait("late receiver", source, target, posted - begun)
            sent = there + LATENCY
        else:
            sent = begun + 1  # nothing waits for it, whenever the receive is posted
        self._wait("late sender", target, source, begun - waited)
        name = {"synchronous": "MPI_Ssend"}.get(how, "MPI_Send")
        self._call(source, name, begun, sent, ("send", target, tag))
        done = there + LATENCY
        record = (
            ("irecv_done", source, tag, self._requests) if how == "early" else ("recv", source, tag)
        )
        self._call(target, "MPI_Wait" if how == "early" else "MPI_Recv", waited, done, record)
        self.now[source], self.now[target] = sent, done

    def collect(self, name: str, pattern: str) -> None:
        """A collective of all ranks, that none leaves before all have come."""
        last = max(range(self.ranks), key=lambda rank: self.now[rank])
        end = self.now[last] + LATENCY
        for rank, begun in enumerate(self.now):
            self._wait(pattern, rank, last, self.now[last] - begun)
            self._call(rank, name, begun, end + rank, ("collective", None))
        self.now = [end + rank for rank in range(self.ranks)]

    def broadcast(self, root: int) -> None:
        """The root goes on at once; who comes before it waits."""
        begun = self.now[root]
        for rank, mine in enumerate(self.now):
            if rank != root:
                self._wait("late broadcast", rank, root, begun - mine)
            end = max(mine, begun) + LATENCY
            self._call(rank, "MPI_Bcast", mine, end, ("collective", root))
            self.now[rank] = end

    def _wait(self, pattern: str, rank: int, peer: int, ns: int) -> None:
        if ns > 0:
            self.waits[pattern, rank, peer] += ns

    def _call(self, rank: int, name: str, start: int, end: int, record: tuple[Any, ...]) -> None:
        self.events[rank] += [(start, "enter", (name,)), (start, "record", record)]
        self.events[rank].append((end, "leave", (name,)))


def play_at_random(seed: int, steps: int = 300, ranks: int = 4) -> Program:
    """A program of messages, collectives and work in any order."""
    random, program = Random(seed), Program(ranks)
    for _ in range(steps):
        rank = random.randrange(ranks)
        program.compute(rank, random.randrange(1, 50_000))
        other = (rank + random.randrange(1, ranks)) % ranks
        act = random.random()
        if act < 0.7:
            how = random.choice(["eager", "synchronous", "early"])
            program.send(rank, other, random.randrange(2), how, random.randrange(20_000))
        elif act < 0.8:
            program.collect("MPI_Allreduce", "wait at n x n")
        elif act < 0.9:
            program.collect("MPI_Barrier", "wait at barrier")
        else:
            program.broadcast(other)
    return program


def write_archive(program: Program, folder: Path) -> Path:
    """The program as Score-P would record it: an archive of OTF2, written by its library."""
    import otf2
    from otf2 import enums

    with otf2.writer.open(str(folder), timer_resolution=10**9) as archive:
        define = archive.definitions
        node = define.system_tree_node("node")
        places = []
        for rank in range(program.ranks):
            group = define.location_group(f"MPI Rank {rank}", system_tree_parent=node)
            places.append(define.location("Master thread", group=group))
        mpi = {"paradigm": enums.Paradigm.MPI, "members": places}
        define.group("", group_type=enums.GroupType.COMM_LOCATIONS, **mpi)
        world = define.group("", group_type=enums.GroupType.COMM_GROUP, **mpi)
        comm = define.comm("MPI_COMM_WORLD", group=world)
        names = {e[2][0] for events in program.events for e in events if e[1] != "record"}
        regions = {n: define.region(n, paradigm=enums.Paradigm.MPI) for n in sorted(names)}
        main = define.region("main", paradigm=enums.Paradigm.COMPILER)
        for place, events in zip(places, program.events, strict=True):
            writer = archive.event_writer_from_location(place)
            writer.enter(0, main)
            for time, what, values in events:
                if what == "record":
                    writer(make_record(time, values, comm))
                else:
                    getattr(writer, what)(time, regions[values[0]])
            writer.leave(max(program.now) + 1, main)
    return folder


def make_record(time: int, values: tuple[Any, ...], comm: Any) -> Any:
    """The event of OTF2 for a record of the player."""
    from otf2 import enums, events

    kind, *rest = values
    if kind == "send":
        return events.MpiSend(time, rest[0], comm, rest[1], 64)
    if kind == "recv":
        return events.MpiRecv(time, rest[0], comm, rest[1], 64)
    if kind == "irecv":
        return events.MpiIrecvRequest(time, rest[0])
    if kind == "irecv_done":
        return events.MpiIrecv(time, rest[0], comm, rest[1], 64, rest[2])
    root = 2**32 - 1 if rest[0] is None else rest[0]
    return events.MpiCollectiveEnd(time, enums.CollectiveOp.BARRIER, comm, root, 0, 0)
