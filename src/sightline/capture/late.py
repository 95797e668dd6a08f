"""Traces that come when nobody waits for them any more: they are removed as they come.

A program that hung, or wrote for longer than it was waited for, leaves a trace of some hundred MB
where it writes, again and again where captures are. Kineto writes NAME.tmp and calls it NAME when
it is whole (src/output_json.cpp): without the first there is none of the second, and what it took
is free when the program closes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial

from sightline.core.foreign_files import Descriptor, act_as, open_folder
from sightline.record.collect.kineto_door import Client
from sightline.record.probe.processes import Root, is_running

LOOK_S = 5.0  # as often as the program looks for orders
MOST_S = 3600.0  # ours: a program that hangs for longer is ended by somebody
_UNFINISHED = ".tmp"


class Late:
    """Looks for them as long as any may come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._awaited: list[tuple[Client, Root, str, float]] = []
        self._thread: threading.Thread | None = None

    def add(self, client: Client, root: Root, order_name: str) -> None:
        """Remove the client's trace of this order, whenever it comes."""
        name = f"{order_name}_{client.own_number}.json"
        with self._lock:
            self._awaited.append((client, root, name, time.monotonic() + MOST_S))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="late-traces", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look once more, and no more."""
        self._ends.set()
        if (thread := self._thread) is not None:
            thread.join()

    def _run(self) -> None:
        is_last = False
        while True:
            with self._lock:
                self._awaited = [one for one in self._awaited if not _is_over(*one)]
                if not self._awaited or is_last:
                    self._thread = None
                    return
            is_last = self._ends.wait(LOOK_S)


def _is_over(client: Client, root: Root, name: str, until: float) -> bool:
    """Whether the trace was removed, or none can come any more."""
    runs = is_running(client.pid)  # asked first: what it wrote last is there then
    was_removed = False
    with contextlib.suppress(OSError):
        folder = act_as(client.owner, partial(open_folder, client.folder, root))
        was_removed = act_as(client.owner, partial(_remove, folder, name))
    return was_removed or not runs or time.monotonic() > until


def remove_trace(place: str, name: str, user: int) -> None:
    """Remove a file of a name that only an order of ours gave, whole or not, if it is its user's.

    For a daemon that has nothing left of the program but what was put down of it.
    """
    with contextlib.suppress(OSError):
        _remove(open_folder(place), name, user)


def _remove(folder: Descriptor, name: str, user: int | None = None) -> bool:
    found = False
    for file in (name, f"{name}{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            state = os.stat(file, dir_fd=folder.number, follow_symlinks=False)
            if user in (None, state.st_uid):
                os.unlink(file, dir_fd=folder.number)
                found = True
    return found
