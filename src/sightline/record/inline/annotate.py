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
from typing import TYPE_CHECKING, Any, TypeVar

from sightline.core.model import event_file as f
from sightline.record.inline import session
from sightline.record.inline.compiled import marks
from sightline.record.inline.markers import enter_others
from sightline.record.inline.nvtx import Labels, Leave
from sightline.record.inline.recorder import Recorder, end, now
from sightline.record.inline.session import state

F = TypeVar("F", bound=Callable[..., Any])
_RANGE = f.RANGE  # looked up 30 ns faster than in its module


class PlainRange:  # `annotate`, where nothing is compiled, and of what the compiled one leaves
    """`with annotate("attention"):`, or `@annotate("attention")` on a function.

    With `payload`, its JSON is kept with the range. `domain` and `category` are names that group
    ranges, as NVTX has them, and `color` is what Nsight Systems draws it in, where the package nvtx
    is installed. One object is one range at a time: a function that calls itself takes the
    decorator, or makes a new one.
    """

    __slots__ = ("_at", "_chunk", "_file", "_labels", "_leave", "_payload", "name")

    def __init__(
        self,
        name: str,
        payload: Any = None,
        *,
        color: str | int | None = None,
        domain: str | None = None,
        category: str | None = None,
    ) -> None:
        given = (color, domain, category)
        self._labels = None if given == (None, None, None) else given
        # Anything may be a name, recorded or not: recording must not change what a program does.
        self.name = name if type(name) is str else str(name)
        self._payload = payload
        self._chunk: Any = None

    def __enter__(self) -> PlainRange:
        if not state.on:
            return self
        modules = sys.modules
        if state.nvtx or "jax" in modules or ("torch" in modules and state.listens()):
            file, self._leave = _beside_others(self.name, self._labels)
        else:
            file, self._leave = state.recorder or session.open_recorder(), None
        self._file = file
        if file is None:
            self._chunk = False  # nothing to write, but others may be listening
            return self
        number = file.numbers.get(self.name) or file.name(self.name)
        if self._labels is not None:
            _, domain, category = (None if label is None else str(label) for label in self._labels)
            text = payload_text(file, self._payload, [domain, category])
            self._chunk, self._at = file.begin(number, now(), text, f.HAS_LABELS)
        elif self._payload is None:
            self._chunk, self._at = file.begin(number, now())
        else:
            text = payload_text(file, self._payload)
            self._chunk, self._at = file.begin(number, now(), text, f.HAS_PAYLOAD)
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
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
        ended = now()
        end(chunk, self._at, ended, _RANGE)
        if ended > file.next_clock:
            file.clock()

    def __call__(self, function: F) -> F:
        """The function with each call in a range.

        Of generators and coroutines only the making of the object is inside.
        """
        name, payload = self.name, self._payload
        color, domain, category = self._labels or (None, None, None)
        given = {"color": color, "domain": domain, "category": category}
        labels: dict[str, Any] = {
            label: value for label, value in given.items() if value is not None
        }

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            if not state.on:
                return function(*args, **kwargs)
            with annotate(name, payload, **labels):
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


if TYPE_CHECKING or marks is None:
    annotate = PlainRange
else:

    class annotate(marks.Range):  # noqa: D101  # used as a function and as a decorator
        __slots__ = ()
        __doc__ = PlainRange.__doc__
        __call__ = PlainRange.__call__


def _beside_others(name: str, labels: Labels | None) -> tuple[Recorder | None, list[Leave] | None]:
    """The file that a range is written to where others may listen too, and what ends it there."""
    if state.torch is not None and state.torch.records_here():
        # The torch profiler will hold the range: this file counts where it never gets to.
        file = state.covered or session.open_recorder()
    elif state.nsys:
        file = session.covered_by_nsys()
    else:
        file = state.recorder or session.open_recorder()
    return file, enter_others(name, labels)


def payload_text(file: Recorder, payload: Any, labels: list[str | None] | None = None) -> int:
    """Write a payload as JSON, on a second line where there are labels; the number of its text."""
    try:
        text = json.dumps(payload, separators=(",", ":"), default=str)
    except Exception as error:  # whatever a payload does when it is written is no reason to stop
        text = json.dumps(f"not written: {type(error).__name__}")
    if labels is not None:
        text = json.dumps(labels) + ("" if payload is None else f"\n{text}")
    return file.text(text, f.NAME)


def plain_mark(name: str, payload: Any = None) -> None:
    """A named moment."""
    if not state.on:
        return
    file = session.open_recorder()
    if file is None:
        return
    number = 0 if payload is None else payload_text(file, payload)
    at_ns = now()
    file.put(f.MARK, file.name(name), at_ns, extra=number, flags=f.HAS_PAYLOAD if number else 0)
    file.clock_if_due(at_ns)


def _choose_mark() -> Callable[..., None]:
    """`mark`: the compiled one, with all that it hands over, or the plain one."""
    if marks is None:
        return plain_mark
    marks.attach_ranges(PlainRange.__enter__, PlainRange.__exit__, plain_mark)
    compiled: Callable[..., None] = marks.mark
    return compiled


mark = _choose_mark()
