"""Asks many daemons: each by itself, or through some of them, each of which asks some others.

The tree has two levels below who asks: daemons that ask others, and those. Where one of the first
cannot be asked, the next of its nodes takes its place; where none of three can, its nodes are asked
directly, as they are where daemons were started without --ca. What is asked twice so is one: a
capture has a number of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sightline.capture.client import Client, map_nodes, take_data
from sightline.capture.relay import (
    MOST_NODES,
    RELAY_S,
    Part,
    Passed,
    Question,
    Told,
    ask_in_turn,
    encode_parts,
    take_passed,
)
from sightline.capture.request import MOST_BYTES
from sightline.errors import InputError, RequestError, SightlineError

# Past so many nodes who asks takes 2 s of its processor to look at all (docs/scale.md).
MOST_DIRECTLY = 500
FAN_OUT = 32  # ours: simulated, the root of 10,000 ranks asks as many as each daemon does
_TRIES = 3  # daemons of a group that are asked to ask the others
_ASKED = 4  # times, for a clock
CLOCK = Question("GET", "/v1/clock")
CLOCKS = (CLOCK,) * _ASKED
_Found = list[Told] | SightlineError


def compare_times(name: str, told: Sequence[Told]) -> tuple[int, int]:
    """A node's clock less ours, and how far that may be off, ns. Raises InputError, RequestError.

    As NTP has it: its time lies between the question's departure and the answer's arrival, so that
    the middle is off by half of what lies between at most; the quickest question says most.
    """
    best: tuple[int, int] | None = None
    for one in told:
        data = take_data(name, one.answer)
        if not isinstance(data, dict) or not isinstance(data.get("time_ns"), int):
            raise InputError(f"{name} is not a daemon of sightline")
        half = one.took_ns // 2
        unsure = half + 1 + one.unsure_ns
        if best is None or unsure < best[1]:
            best = data["time_ns"] - (one.asked_ns + half), unsure
    assert best is not None
    return best


class Direct:
    """Asks each node by itself, some of them at a time."""

    width = 0  # how many nodes whoever asks most asks; 0: all

    def ask(self, asked: Sequence[tuple[Client, Sequence[Question]]]) -> list[_Found]:
        """The answers of each node to its questions, or why there are none, in their order."""
        questions = {id(client): turn for client, turn in asked}
        return map_nodes(
            lambda client: ask_in_turn(client, questions[id(client)]), [c for c, _ in asked]
        )


@dataclass
class _Group:
    """Nodes of which one asks the others."""

    members: list[Client]
    relay: int = 0  # the place of the one that asks; past the last try: nobody does
    clock: tuple[int, int] | None = None  # of that one against ours
    lock: threading.Lock = field(default_factory=threading.Lock)


class Tree:
    """Asks nodes through some of them. `say` is told where a part of it cannot be."""

    def __init__(self, clients: Sequence[Client], fan_out: int, say: Callable[[str], None]) -> None:
        """`fan_out`: how many nodes each of those asks, itself among them: 2 to 64."""
        self._direct, self._say = Direct(), say
        self._groups = [
            _Group(list(clients[at : at + fan_out])) for at in range(0, len(clients), fan_out)
        ]
        self._whose = {id(one): group for group in self._groups for one in group.members}
        self._has_said = False
        self.width = max(fan_out, len(self._groups))

    def ask(self, asked: Sequence[tuple[Client, Sequence[Question]]]) -> list[_Found]:
        """The answers of each node to its questions, or why there are none, in their order."""
        turns: dict[int, list[tuple[Client, Sequence[Question]]]] = {}
        for client, questions in asked:
            turns.setdefault(id(self._whose[id(client)]), []).append((client, questions))
        groups = [group for group in self._groups if id(group) in turns]
        found: dict[int, _Found] = {}
        # A pool's work is about clients elsewhere: here about the first of each group.
        works = {
            id(group.members[0]): partial(self._ask_group, group, turns[id(group)])
            for group in groups
        }
        for told in map_nodes(lambda one: works[id(one)](), [g.members[0] for g in groups]):
            found |= told
        return [found[id(client)] for client, _ in asked]

    def _ask_group(
        self, group: _Group, turns: Sequence[tuple[Client, Sequence[Question]]]
    ) -> dict[int, _Found]:
        with group.lock:
            while group.relay < min(_TRIES, len(group.members)):
                try:
                    return self._ask_through(group, turns)
                except RequestError as error:  # it answers, and asks nobody
                    self._tell(error)
                    group.relay = _TRIES
                except InputError:
                    group.relay, group.clock = group.relay + 1, None
        return {id(c): told for (c, _), told in zip(turns, self._direct.ask(turns), strict=True)}

    def _ask_through(
        self, group: _Group, turns: Sequence[tuple[Client, Sequence[Question]]]
    ) -> dict[int, _Found]:
        relay = group.members[group.relay]
        found: dict[int, _Found] = {}
        others = [(client, turn) for client, turn in turns if client is not relay]
        if others and group.clock is None:
            name = relay.address.name
            group.clock = compare_times(name, ask_in_turn(relay, CLOCKS))
        for client, turn in turns:
            if client is relay:
                found[id(client)] = ask_in_turn(relay, turn)
        parts = [Part(client.address, tuple(turn)) for client, turn in others]
        passed: list[Passed] = []
        waits = Client(relay.address, RELAY_S) if parts else None
        if waits is not None:
            try:
                for few in split_parts(parts):
                    passed += take_passed(waits, few)
            finally:
                waits.close()
        for (client, turn), one in zip(others, passed, strict=True):
            if one.is_long:
                found[id(client)] = self._direct.ask([(client, turn)])[0]
            elif one.problem is not None:
                found[id(client)] = one.problem
            else:
                found[id(client)] = [self._place(group, told) for told in one.told]
        return found

    def _place(self, group: _Group, told: Told) -> Told:
        assert group.clock is not None
        offset, unsure = group.clock
        return replace(told, asked_ns=told.asked_ns - offset, unsure_ns=unsure)

    def _tell(self, error: RequestError) -> None:
        if not self._has_said:
            self._has_said = True
            why = "" if error.why is None else f": {error.why}"
            self._say(f"nodes are asked one by one ({error.what}{why})")


def split_parts(parts: Sequence[Part]) -> list[list[Part]]:
    """In as few requests as take them: of so many nodes, and of so many bytes."""
    made: list[list[Part]] = []
    size = 0
    for part in parts:
        own = len(encode_parts([part]))
        if not made or len(made[-1]) == MOST_NODES or size + own > MOST_BYTES:
            made.append([])
            size = 0
        made[-1].append(part)
        size += own
    return made


def choose_asker(
    clients: Sequence[Client], fan_out: int | None, say: Callable[[str], None]
) -> Direct | Tree:
    """Who asks: a tree past 500 nodes, or where a person said so; 0 is none.

    Raises RequestError where daemons cannot ask each other so.
    """
    if fan_out is None:
        is_tree = len(clients) > MOST_DIRECTLY and all(c.address.context for c in clients)
        return Tree(clients, FAN_OUT, say) if is_tree else Direct()
    if fan_out == 0:
        return Direct()
    if not 2 <= fan_out <= MOST_NODES:
        why = f"a daemon can ask 2 to {MOST_NODES} nodes; 0 asks each node directly"
        raise RequestError(f"--fan-out {fan_out} is not a valid value", why=why)
    if not all(client.address.context for client in clients):
        raise RequestError("daemons ask each other over TLS only", hint="--hosts HOSTS --ca FILE")
    return Tree(clients, fan_out, say)


def take_first(name: str, found: _Found) -> Any:
    """The data of a node's only answer, or the error that came of it. Raises neither."""
    if isinstance(found, SightlineError):
        return found
    try:
        return take_data(name, found[-1].answer)
    except SightlineError as error:
        return error
