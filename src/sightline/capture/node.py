"""A node's captures: one at a time, from the order to the reduced ranks."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sightline.capture import shelf as shelves
from sightline.capture.apart import Apart
from sightline.capture.keeper import Handing, Keeper
from sightline.capture.late import Late, remove_trace
from sightline.capture.listeners import Listener
from sightline.capture.request import CaptureRequest, find_bad_start
from sightline.capture.shelf import Shelf, write_state
from sightline.core.units import format_several
from sightline.errors import RequestError, SightlineError
from sightline.record.collect.kineto_door import POLL_S, Order, take_trace
from sightline.record.inline.rank import make_host_mark
from sightline.record.probe.processes import Root, is_running

WAITING, RECORDING, REDUCING, DONE = "waiting", "recording", "reducing", "done"
# Kineto writes 100 MB of JSON in some ten seconds; steps end when the program has made them.
TRACE_S, STEPS_S = 60.0, 300.0
# Between two looks for traces, times the ranks: a look takes 0.3 ms, so 8 % of a processor.
_LOOK_S = 0.004


@dataclass
class Capture:
    """One capture of this node's ranks, and how far it is."""

    request: CaptureRequest
    user: int  # who asked
    why: str  # what made it: a person, or the name of a trigger
    listeners: list[Listener]
    folder: Path
    state: str = WAITING
    problems: list[str] = field(default_factory=list)
    history: Path | None = None  # where its fingerprint goes, and then its traces go away
    counts: dict[str, float] = field(default_factory=dict)  # which go there with it
    told: int = 0
    missing: list[Listener] = field(default_factory=list)  # which may write a trace yet
    began_ns: int = field(default_factory=time.time_ns)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def order_name(self) -> str:
        """What its traces are called where programs write them."""
        return f"sightline-{self.request.id}"

    def describe(self) -> dict[str, Any]:
        """As data, for those who ask, and for the next daemon."""
        return {
            "id": self.request.id,
            "user": self.user,
            "why": self.why,
            "state": self.state,
            "began_ns": self.began_ns,
            "start_ms": self.request.start_ms,
            "seconds": self.request.seconds,
            "steps": self.request.steps,
            "job": self.request.job,
            "expected": [one.describe() for one in self.listeners],
            "told": self.told,
            "problems": list(self.problems),
            "written": self._list_written(self.listeners),
            "missing": self._list_written(self.missing),
        }

    def _list_written(self, listeners: Sequence[Listener]) -> list[list[Any]]:
        return [
            [one.client.folder, f"{self.order_name}_{one.client.own_number}.json", one.user]
            for one in listeners
        ]


class Node:
    """What a daemon does for those who ask it; `say` is told what a person should know."""

    def __init__(
        self,
        keeper: Keeper,
        shelf: Shelf,
        say: Callable[[str], None],
        *,
        reduce: Callable[[Path, dict[str, Any]], str | None] | None = None,
        trace_s: float = TRACE_S,
        push: Sequence[str] = (),
    ) -> None:
        """`push`: servers to which windows of a continuous profile go (profile_push)."""
        self._push = tuple(push)
        self.keeper, self.shelf, self._say = keeper, shelf, say
        self._apart, self._late = Apart(), Late()
        self._reduce = self._apart.reduce if reduce is None else reduce
        self._fingerprints = reduce is None
        self._trace_s = trace_s
        self._lock = threading.Lock()
        self._running: Capture | None = None
        self._known: dict[str, Capture] = {}
        remove_unfinished(shelf)

    def close(self) -> None:
        """End what is reduced; a capture that is being made is dropped, and nothing of it left."""
        self._apart.close()
        self._late.close()
        if (capture := self._running) is not None:
            abandon(capture)

    def choose(self, request: CaptureRequest, may: Callable[[Listener], bool]) -> list[Listener]:
        """Whom a request is about. Raises RequestError where that is nobody."""
        listeners = self.keeper.list_listeners()
        of_job = [one for one in listeners if request.job in (None, one.job)]
        if request.ranks:
            of_job = [one for one in of_job if one.identity.rank in request.ranks]
        if request.pids:
            of_job = [one for one in of_job if one.pid in request.pids]
        allowed = [one for one in of_job if may(one)]
        if allowed:
            return allowed
        if of_job:
            raise RequestError("these processes belong to another user")
        jobs = sorted({one.job or "(no job)" for one in listeners if may(one)})
        raise RequestError(
            "no process listens" + (f" of job {request.job}" if request.job else ""),
            why=f"those that listen here belong to {', '.join(jobs[:5])}"
            if jobs
            else "no process here was started with KINETO_USE_DAEMON=1, or none has contacted "
            "the daemon for 20 s",
        )

    def begin(
        self,
        request: CaptureRequest,
        user: int,
        may: Callable[[Listener], bool],
        why: str = "asked",
        history: Path | None = None,
        counts: dict[str, float] | None = None,
    ) -> Capture:
        """Begin a capture; the same one where it was begun before. Raises RequestError, InputError.

        `may` says which processes the user may record.
        """
        with self._lock:
            known = self._known.get(request.id)
            if known is not None:
                return known
            if self.shelf.find(request.id) is not None:
                raise RequestError("a capture with this id exists already")
            bad = find_bad_start(request.start_ms, time.time())
            if bad is not None:
                raise RequestError("this capture is too late", why=bad)
            if self._running is not None:
                raise RequestError(
                    "a capture is in progress", why="a profiler records one at a time"
                )
            chosen = self.choose(request, may)
            place = self.shelf.make(request.id)
            capture = Capture(
                request, user, why, chosen, place, history=history, counts=counts or {}
            )
            write_state(capture.folder, capture.describe())
            self._running = self._known[request.id] = capture
        threading.Thread(target=self._run, args=(capture,), daemon=True, name="capture").start()
        return capture

    def read(self, name: str) -> dict[str, Any] | None:
        """How far a capture is, or what it became; None where there is none of that name."""
        capture = self._known.get(name)
        if capture is not None:
            return capture.describe()
        folder = self.shelf.find(name)
        return None if folder is None else shelves.read_state(folder)

    @property
    def running(self) -> Capture | None:
        """The capture that is being made."""
        return self._running

    def _run(self, capture: Capture) -> None:
        try:
            self._record(capture)
        except Exception as error:  # whatever it is, the daemon goes on, and who asked is told
            capture.problems.append(_write(error))
        finally:
            self._apart.drop(capture.folder)
            if capture.history is not None:
                shutil.rmtree(capture.folder, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    write_state(capture.folder, {**capture.describe(), "state": DONE})
            with self._lock:
                self._running = None
                self._known.pop(capture.request.id)
            capture.state = DONE
            capture.done.set()
        if capture.history is not None and not capture.problems:
            return
        self._say(
            f"captured {capture.told} of "
            f"{format_several(len(capture.listeners), 'process', 'processes')} ({capture.why})"
            + (f"; {capture.problems[0]}" if capture.problems else "")
        )
        if capture.history is None and self._fingerprints:
            self._apart.fingerprint(capture.folder, {})  # for which nobody waits

    def _record(self, capture: Capture) -> None:
        request = capture.request
        order = Order(
            capture.order_name, request.seconds, request.warm_up_s, request.wanted,
            request.steps, request.align,
        )  # fmt: skip
        roots: dict[int, Root] = {}
        for one in capture.listeners:
            with contextlib.suppress(OSError):  # it has ended
                roots[one.pid] = Root(one.pid)
        handing = self.keeper.hand(order, request.start_ms, capture.listeners)
        if self._fingerprints:
            self._apart.begin(capture.folder)
        _wait_for_turns(handing)
        missed = self.keeper.withdraw(handing)
        capture.told = len(handing.told)
        capture.problems += [f"{_name(one)} {_explain_silence(one)}" for one in missed]
        capture.problems += [
            f"{_name(one)} contacted the daemon too late to begin" for one in handing.late
        ]
        capture.state = RECORDING
        if not request.steps:
            time.sleep(max(request.start_ms / 1000 + request.seconds - time.time(), 0))
        self._take_all(capture, [one for one in handing.told if one.pid in roots], roots)
        capture.state = REDUCING
        problem = self._reduce(capture.folder, describe_run(capture))
        if problem is None and capture.history is not None:
            facts = describe_run(capture)
            facts["history"]["push"] = self._push
            problem = self._apart.fingerprint(capture.folder, facts)
        if problem is not None:
            capture.problems.append(problem)

    def _take_all(self, capture: Capture, told: Sequence[Listener], roots: dict[int, Root]) -> None:
        threads = [
            threading.Thread(target=partial(self._take, capture, one, roots[one.pid]), daemon=True)
            for one in told
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _take(self, capture: Capture, one: Listener, root: Root) -> None:
        rank = one.identity.rank
        who = "proc" if rank is None else f"rank{rank}"
        name = f"{who}-{make_host_mark()}-{one.pid}.torch-0.json"
        target = capture.folder / shelves.RUN / name
        most_s = STEPS_S if capture.request.steps else self._trace_s
        try:
            take_trace(
                one.client, root, capture.order_name, target, most_s=most_s,
                period_s=max(0.1, capture.told * _LOOK_S),
            )  # fmt: skip
        except (SightlineError, OSError) as error:
            capture.problems.append(f"{_name(one)}: {_write(error)}")
            capture.missing.append(one)
            self._late.add(one.client, root, capture.order_name)


def describe_run(capture: Capture) -> dict[str, Any]:
    """What a run folder says of how it was made (core/model/run_folder.py)."""
    first = capture.listeners[0] if capture.listeners else None
    history = capture.history and {
        "folder": str(capture.history),
        "time_ns": capture.request.start_ms * 10**6,
        "labels": {"job": (first and first.job) or "none", "node": make_host_mark()},
        "counts": capture.counts,
    }
    return {
        "history": history,
        "command": first.command.split(" ") if first else [],
        "question": "timeline",
        "backends": ["torch"],
        "host_mark": make_host_mark(),
        "state": "ended",
        "began_ns": capture.began_ns,
        "seconds": capture.request.seconds,
        "notes": [
            {"kind": "capture", "severity": "warning", "text": text} for text in capture.problems
        ],
    }


def remove_unfinished(shelf: Shelf) -> None:
    """Remove what a daemon that was killed had begun: here, and where programs wrote."""
    for folder in shelf.list_folders():
        state = shelves.read_state(folder) or {}
        is_done = state.get("state") == DONE
        for place, name, user in state.get("missing" if is_done else "written", ()):
            remove_trace(place, name, user)
        if not is_done:
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for_turns(handing: Handing) -> None:
    """Until all were told, or no more can be: their turns are over, or the start is too near."""
    left = handing.start_ms / 1000 - handing.order.warm_up_s - time.time()
    limit = time.monotonic() + (2 * POLL_S if handing.order.steps else max(left, 0))
    while not handing.done.wait(min(max(limit - time.monotonic(), 0), 1.0)):
        if time.monotonic() >= limit or not any(map(is_running, list(handing.waiting))):
            return


def _name(one: Listener) -> str:
    rank = one.identity.rank
    return f"process {one.pid}" if rank is None else f"rank {rank} (process {one.pid})"


def _explain_silence(one: Listener) -> str:
    if not is_running(one.pid):
        return "ended before it could begin"
    return "did not contact the daemon in time: it hangs, is stopped, or is busy in one long call"


def _write(error: BaseException) -> str:
    if isinstance(error, SightlineError):
        return f"{error.what}: {error.why}" if error.why else error.what
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return f"{type(error).__name__}: {error}"


def abandon(capture: Capture) -> None:
    """Drop a capture that a daemon which ends had begun; nothing of it is left, here or there."""
    for place, name, user in capture.describe()["written"]:
        remove_trace(place, name, user)
    shutil.rmtree(capture.folder, ignore_errors=True)
