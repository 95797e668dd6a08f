"""Keeps the door at which programs ask for orders: knows who asks, and hands orders over.

A client asks every five seconds and has been asked nothing by then, so a daemon that is idle wakes
as often as its clients ask, and for nothing else.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sightline.capture.listeners import Listener, read_listener
from sightline.core.foreign_files import find_owner
from sightline.record.collect.kineto_door import POLL_S, Door, Order, Request, name_address
from sightline.record.probe.processes import is_running

# A client that was not heard for so many of its turns has ended, or hangs (ours).
_TURNS = 4
_MOST = 4096  # clients of one node: its processes of all jobs, many times over (ours)


@dataclass
class Handing:
    """An order on its way to those who are to have it; `start_ms` of the epoch, on this clock."""

    order: Order
    start_ms: int
    waiting: dict[int, Listener]
    told: list[Listener] = field(default_factory=list)
    late: list[Listener] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def is_late(self) -> bool:
        """Whether Kineto would drop the order: its warm-up no longer fits before the start."""
        if self.order.steps:
            return False
        return self.start_ms / 1000 - time.time() < self.order.warm_up_s


class Keeper:
    """Listens at doors in a thread of its own. Raises RequestError where another daemon does."""

    def __init__(
        self, folders: Sequence[str] = ("",), *, now: Callable[[], float] = time.monotonic
    ):
        """`folders`: those of sockets, "" for the name that Kineto looks at by default."""
        self._now = now
        self._lock = threading.Lock()
        self._heard: dict[int, tuple[Listener, float]] = {}
        self._handings: list[Handing] = []
        self.user = os.geteuid()
        owner = find_owner(os.getpid())
        self._doors: dict[Door, str] = {}
        try:
            for folder in folders:
                address = name_address(folder)
                self._doors[Door(address, owner)] = address
        except BaseException:
            self._close_doors()
            raise
        self._ends, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, name="sightline-door", daemon=True)
        self._thread.start()

    def list_listeners(self) -> list[Listener]:
        """Those that asked a moment ago and still run."""
        with self._lock:
            limit = self._now() - _TURNS * POLL_S
            kept = {
                pid: (one, at)
                for pid, (one, at) in self._heard.items()
                if at >= limit and is_running(pid)
            }
            self._heard = kept
        return [one for one, _ in kept.values()]

    def hand(self, order: Order, start_ms: int, to: Sequence[Listener]) -> Handing:
        """Give the order to each of them as it asks; at once, whatever becomes of it."""
        handing = Handing(order, start_ms, {one.pid: one for one in to})
        if not to:
            handing.done.set()
        with self._lock:
            self._handings.append(handing)
        return handing

    def withdraw(self, handing: Handing) -> list[Listener]:
        """Tell it to nobody else from now on; who has not asked until now."""
        with self._lock:
            if handing in self._handings:
                self._handings.remove(handing)
        return list(handing.waiting.values())

    def close(self) -> None:
        """Stop listening, and leave nothing behind."""
        os.write(self._end, b".")
        self._thread.join()
        self._close_doors()
        os.close(self._end)
        os.close(self._ends)

    def _close_doors(self) -> None:
        for door in self._doors:
            door.__exit__(None, None, None)

    def _run(self) -> None:
        while True:
            waited: list[Door | int] = [*self._doors, self._ends]
            ready, _, _ = select.select(waited, [], [])
            if self._ends in ready:
                return
            for door in ready:
                if isinstance(door, int):
                    continue
                try:
                    request = door.receive()
                except OSError:
                    continue
                if request is not None:
                    self._answer(door, request)

    def _answer(self, door: Door, request: Request) -> None:
        # An order names a file to write: of another user's process only root may say so.
        if request.user != self.user and self.user != 0:
            return
        listener = self._note(door, request)
        handing = self._find_handing(listener, request) if listener is not None else None
        if handing is None or listener is None:
            door.answer(request)
            return
        lines = "" if handing.is_late else handing.order.write(listener.client, handing.start_ms)
        handed = door.answer(request, lines)
        with self._lock:
            if handing.waiting.pop(listener.pid, None) is None:
                return
            (handing.told if lines and handed else handing.late).append(listener)
            if not handing.waiting:
                handing.done.set()

    def _note(self, door: Door, request: Request) -> Listener | None:
        """Who asks, as it was read when it asked for the first time."""
        with self._lock:
            known = self._heard.get(request.pid)
        # A number of a process that has ended is another one's in time, with a socket of its own.
        same = known is not None and known[0].client.socket == str(request.answer_to)
        listener = known[0] if same and known else read_listener(request, self._doors[door])
        if listener is None or listener.user != request.user:
            return None
        with self._lock:
            if len(self._heard) < _MOST or request.pid in self._heard:
                self._heard[request.pid] = (listener, self._now())
        return listener

    def _find_handing(self, listener: Listener | None, request: Request) -> Handing | None:
        if listener is None or not request.wants_activities:
            return None
        with self._lock:
            for handing in self._handings:
                if listener.pid in handing.waiting:
                    return handing
        return None
