"""Named ranges, marks and steps.

A range goes to the event file, and to whatever else is recording at that moment: NVTX or roctx
under a vendor's profiler, torch's record_function while a torch profiler runs on this thread, a
JAX trace annotation. Where nothing is recorded, a range is one look at one attribute.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from sightline.inline import session
from sightline.inline.markers import Leave, others
from sightline.inline.recorder import Recorder, now
from sightline.inline.session import state
from sightline.model import event_file as f

F = TypeVar("F", bound=Callable[..., Any])


class annotate:  # used as a function and as a decorator
    """`with annotate("attention"):`, or `@annotate("attention")` on a function.

    With `payload`, its JSON is kept with the range. One object is one range at a time: a function
    that calls itself takes the decorator, or makes a new one.
    """

    __slots__ = ("_at", "_chunk", "_extra", "_file", "_id", "_leave", "_payload", "_start", "name")

    def __init__(self, name: str, payload: Any = None) -> None:
        self.name = name
        self._payload = payload
        self._chunk: Any = None

    def __enter__(self) -> annotate:
        if not state.on:
            return self
        if state.torch is not None and state.torch.records_here():
            # The torch profiler will hold the range: this file counts where it never gets to.
            self._file = file = state.covered or session.recorder()
        elif state.nsys:
            self._file = file = session.covered_by_nsys()
        else:
            self._file = file = state.recorder or session.recorder()
        modules = sys.modules
        listening = state.nvtx or "torch" in modules or "jax" in modules
        self._leave: list[Leave] | None = others(self.name) if listening else None
        if file is None:
            self._chunk = False  # nothing to write, but others may be listening
            return self
        self._extra = 0 if self._payload is None else payload_text(file, self._payload)
        self._id = file.name(self.name)
        self._start = start = now()
        self._chunk, self._at = file.begin(f.OPEN, self._id, start, self._extra)
        return self

    def __exit__(self, *_: object) -> None:
        chunk = self._chunk
        if chunk is None:
            return
        if self._leave is not None:
            for leave in reversed(self._leave):
                leave()
        self._chunk = None
        file = self._file
        if file is None:
            return
        end = now()
        file.end(chunk, self._at, self._start, end, self._id, self._extra)
        if end > file.next_clock:
            file.clock()

    def __call__(self, function: F) -> F:
        """The function with each call in a range.

        Of generators and coroutines only the making of the object is inside.
        """
        name, payload = self.name, self._payload

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            if not state.on:
                return function(*args, **kwargs)
            with annotate(name, payload):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def payload_text(file: Recorder, payload: Any) -> int:
    """Write a payload as JSON; the number of its text."""
    return file.text(json.dumps(payload, separators=(",", ":"), default=str), f.NAME)


def mark(name: str, payload: Any = None) -> None:
    """A named moment."""
    if not state.on:
        return
    file = session.recorder()
    if file is None:
        return
    number = 0 if payload is None else payload_text(file, payload)
    at_ns = now()
    file.put(f.MARK, file.name(name), at_ns, extra=number, flags=f.HAS_PAYLOAD if number else 0)
    file.clock_if_due(at_ns)
