"""A profile that is always on: now and then a short window, kept as a fingerprint and its stacks.

Windows lie at random moments of equal periods, so that nothing that recurs in the program (an
evaluation, a checkpoint) is always hit, or never (stratified sampling). Of a node's jobs each has
its turn. What lies between them is counted where that is asked for (counting.py): each window has
the rates of its job since the one before it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sightline.capture.counting import Counting
from sightline.capture.node import Node
from sightline.capture.triggers import Window, make_request
from sightline.errors import InputError, RequestError

LOOK_S = 10.0  # for new processes to count: a program asks for orders every 5 s (ours)
LEAST_PERIOD_S = 30.0  # a client hears of a window within 5 s, warms up for 5 s, and writes


class Continuous:
    """Windows of one node, until it is closed."""

    def __init__(
        self,
        node: Node,
        history: Path,
        period_s: float,
        window: Window,
        say: Callable[[str], None],
        dice: random.Random | None = None,
        counting: Counting | None = None,
    ) -> None:
        self._counting = counting
        self._node, self._history, self._period_s = node, history, period_s
        self._window, self._say = window, say
        self._dice = dice or random.Random()  # noqa: S311  # a moment, and no secret
        self._ends = threading.Event()
        self._turn = 0
        self._thread = threading.Thread(target=self._run, name="continuous", daemon=True)

    def start(self) -> None:
        """Begin with the first period."""
        self._thread.start()

    def close(self) -> None:
        """No window any more; one that is being recorded is the node's to end."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._counting is not None:
            self._counting.close()

    def take(self) -> bool:
        """Begin one window, of the job whose turn it is; whether there was any."""
        jobs = sorted({one.job or "" for one in self._node.keeper.list_listeners()})
        if not jobs:
            return False
        job = jobs[self._turn % len(jobs)] or None
        self._turn += 1
        window = Window(self._window.seconds, self._window.wanted, job)
        counts = {} if self._counting is None else self._counting.take(job or "")
        try:
            request = make_request(window, time.time())
            self._node.begin(
                request, os.geteuid(), lambda one: one.job == job, "continuous", self._history,
                counts,
            )  # fmt: skip
        except (RequestError, InputError) as error:
            self._say(f"no window was recorded: {error.what}")
            return False
        return True

    def _run(self) -> None:
        for moment in list_moments(self._period_s, self._dice):
            if self._wait(moment):
                return
            self.take()

    def _wait(self, seconds: float) -> bool:
        """Wait, and have new processes counted meanwhile; whether it is over."""
        limit = time.monotonic() + seconds
        while self._counting is not None and (left := limit - time.monotonic()) > LOOK_S:
            self.look()
            if self._counting is None or self._ends.wait(min(LOOK_S, left)):
                break
        return self._ends.wait(max(limit - time.monotonic(), 0.0))

    def look(self) -> None:
        """Have those counted that listen now; where nothing counts any more, that is said once."""
        if self._counting is None:
            return
        jobs: dict[str, list[int]] = {}
        for one in self._node.keeper.list_listeners():
            jobs.setdefault(one.job or "", []).append(one.pid)
        self._counting.watch(jobs)
        if self._counting.is_over:
            self._say(
                "GPU calls are no longer counted between the windows: the counting process ended"
            )
            self._counting.close()
            self._counting = None


def list_moments(period_s: float, dice: random.Random) -> Iterator[float]:
    """How long to wait for each window after the one before it, s: one in each period; endless."""
    left = 0.0
    while True:
        at = dice.uniform(0, period_s)
        yield left + at
        left = period_s - at
