"""Python's stacks of all threads, sampled for a while, as a trace of Chrome's format.

Ten milliseconds lie between two samples: what is shorter may be missing, and where a call begins
and ends is known to that. No thread is stopped for it but by the interpreter's lock.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_PERIOD_S = 0.01
_DEEPEST = 256
_MOST = 200_000  # events: some 30 MB


def record_stacks(
    seconds: float, path: str, write: Callable[[str, str], None], pause: Callable[[float], None]
) -> int:
    """Sample for so long and have the trace written; how many samples were taken."""
    own, pid = threading.get_ident(), os.getpid()
    events: list[dict[str, Any]] = []
    open_calls: dict[int, list[tuple[object, str, float]]] = {}
    ends, samples, now = time.perf_counter() + seconds, 0, 0.0
    to_epoch = time.time_ns() / 1e3 - time.perf_counter() * 1e6
    native = {thread.ident: thread.native_id for thread in threading.enumerate()}
    while (began := time.perf_counter()) < ends and len(events) < _MOST:
        now = began * 1e6 + to_epoch
        for thread, frame in sys._current_frames().items():
            if thread != own:
                calls = open_calls.setdefault(thread, [])
                tid = native.get(thread) or thread
                _follow(calls, _list_calls(frame), now, (pid, tid), events)
        samples += 1
        pause(max(_PERIOD_S - (time.perf_counter() - began), 0.0005))
    for thread, calls in open_calls.items():
        _follow(calls, [], now, (pid, native.get(thread) or thread), events)
    write(path, json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}))
    return samples


def _list_calls(frame: FrameType | None) -> list[tuple[object, str]]:
    """What is being called, the outermost first."""
    calls: list[tuple[object, str]] = []
    while frame is not None and len(calls) < _DEEPEST:
        code = frame.f_code
        name = f"{code.co_filename}({code.co_firstlineno}): {code.co_name}"
        calls.append(((id(frame), code), name))
        frame = frame.f_back
    return calls[::-1]


def _follow(
    calls: list[tuple[object, str, float]],
    seen: list[tuple[object, str]],
    now: float,
    place: tuple[int, int],
    events: list[dict[str, Any]],
) -> None:
    """End the calls that are no more, and begin those that are new; µs of the epoch."""
    same = 0
    while same < min(len(calls), len(seen)) and calls[same][0] == seen[same][0]:
        same += 1
    for _, name, began in calls[same:]:
        events.append(
            {
                "ph": "X", "cat": "python_function", "name": name, "pid": place[0],
                "tid": place[1], "ts": round(began, 3), "dur": round(now - began, 3), "args": {},
            }
        )  # fmt: skip
    calls[same:] = [(key, name, now) for key, name in seen[same:]]
