"""What OTF2's records of MPI say: messages and collectives, with ranks of the world.

OTF2 numbers ranks within communicators; what a communicator's members are is defined by groups of
locations (OTF2 3.0, OTF2_GroupType).
"""

from __future__ import annotations

from typing import Any

import polars as pl

# The records of messages (OTF2_Events.h): direction, and which part of one the call is.
MESSAGES = {
    "MpiSend": ("send", "whole"),
    "MpiIsend": ("send", "posted"),
    "MpiIsendComplete": ("send", "completed"),
    "MpiRecv": ("receive", "whole"),
    "MpiIrecvRequest": ("receive", "posted"),
    "MpiIrecv": ("receive", "completed"),
}
COLLECTIVE = "MpiCollectiveEnd"
# Columns of mpi_events, as `Ranks.describe` lists them.
RECORD = {
    "kind": pl.String,
    "direction": pl.String,
    "stage": pl.String,
    "mpi_rank": pl.Int64,
    "tag": pl.Int64,
    "peer": pl.Int64,
    "peer_rank": pl.Int64,
    "root": pl.Int64,
    "root_rank": pl.Int64,
    "bytes": pl.Int64,
    "bytes_sent": pl.Int64,
    "bytes_received": pl.Int64,
    "communicator": pl.Int64,
    "group": pl.String,
    "group_size": pl.Int64,
    "request": pl.Int64,
}
_MOST = 2**63


class Ranks:
    """Which rank of the world a location is, and which locations a communicator has."""

    def __init__(self, definitions: Any, places: dict[Any, int]) -> None:
        # The members of MPI's group of locations, in order, are the ranks of the world.
        self._of_place: dict[int, int] = {}
        for group in definitions.groups:
            if _name(group.group_type) == "COMM_LOCATIONS" and _name(group.paradigm) == "MPI":
                members = [places[m] for m in group.members if m in places]
                self._of_place = {place: rank for rank, place in enumerate(members)}
        self._members: dict[Any, list[int | None]] = {}
        self._numbers: dict[Any, int] = {}
        for number, comm in enumerate(definitions.comms):
            self._numbers[comm] = number
            group = getattr(comm, "group", None)  # one between two groups has none
            own: Any = () if group is None else group.members
            self._members[comm] = [
                self._of_place.get(places[m]) if m in places else None for m in own
            ]

    def describe(self, place: int, kind: str, event: Any) -> tuple[Any, ...]:
        """A record as a row of RECORD."""
        direction, stage = MESSAGES.get(kind, (None, None))
        comm = getattr(event, "communicator", None)
        peer = _number(getattr(event, "receiver", getattr(event, "sender", None)))
        is_collective = kind == COLLECTIVE
        root = _number(event.root) if is_collective else None
        members = self._members.get(comm, [])
        own = self._of_place.get(place)
        # The communicator of one rank is one for each of them, under one definition.
        is_alone = comm is not None and not members
        group = None if comm is None else f"{comm.name or 'communicator'}#{self._numbers[comm]}"
        return (
            "collective" if is_collective else "start_wait" if stage == "completed" else "p2p",
            direction,
            stage,
            own,
            _number(getattr(event, "msg_tag", None)),
            peer,
            own if is_alone and peer == 0 else _pick(members, peer),
            root,
            _pick(members, root),
            _number(getattr(event, "msg_length", None)),
            _number(event.size_sent) if is_collective else None,
            _number(event.size_received) if is_collective else None,
            self._numbers.get(comm),
            f"{group} of rank {own}" if is_alone else group,
            None if comm is None else len(members) or 1,
            _number(getattr(event, "request_id", None)),
        )


def _name(member: Any) -> str:
    return str(member).rpartition(".")[2]


def _number(value: Any) -> int | None:
    """A number of the archive; None where it stands for none, or is not a number of 64 bits."""
    # OTF2_UNDEFINED_UINT32 and what stands for no root or the own group are its largest numbers.
    if not isinstance(value, int) or not 0 <= value < _MOST or 2**32 - 8 <= value < 2**32:
        return None
    return value


def _pick(members: list[int | None], rank: int | None) -> int | None:
    return members[rank] if rank is not None and rank < len(members) else None
