"""Inputs that were made to take time or memory: each of any size, for doubling.py."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

from support.flight import entry
from support.wire import field

Make = Callable[[int], bytes]
CASES: dict[str, tuple[str, Make]] = {}
_EVENTS = '{"traceEvents": [\n'
_EVENT = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 7, "dur": 5},\n'


def _add(importer: str, name: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        CASES[f"{importer}/{name}"] = (importer, make)
        return make

    return keep


# What a changed byte in a packed trace makes of the rest of it: events that are broken in the same
# way, tens of thousands of them.
for _name, _broken in {
    "broken events": '{"ph": "X" x "name": "a", "ts": 1},\n',
    "some broken events": '{"ph": "X" x},\n' + _EVENT,
    "odd numbers": '{"ph": "X", "cat": "cpu_op", "name": "a", "tid": "\u0663 7", "ts": "1_0"},\n',
    "open lists": '{"ph": "X", "args": [{"a": 1},\n',
    "open texts": '{"ph": "X", "name": "abc},\n',
    "no events": "7,\n",
    "other quotes": "{'ph': 'X', 'name': 'abc'},\n",
}.items():
    CASES[f"kineto/{_name}"] = ("kineto", lambda n, b=_broken: (_EVENTS + b * n).encode())
CASES["kineto/keys"] = (
    "kineto",
    lambda n: ("{" + "".join(f'"k{i}": 1,\n' for i in range(n)) + _EVENTS[1:] + _EVENT).encode(),
)


def _dump(entries: list[dict[str, Any]], ranks: list[int]) -> dict[str, Any]:
    group = {"name": "0", "desc": "default_pg", "ranks": ranks}
    return {"version": "2.9", "pg_config": {"0": group}, "entries": entries}


def _frames(count: int) -> list[dict[str, Any]]:
    return [{"name": f"f{n}", "filename": f"/usr/torch/{n}.py", "line": n} for n in range(count)]


@_add("torch_flight", "one stack of all records")
def _share_stack(n: int) -> bytes:
    frames = _frames(n)
    return pickle.dumps(_dump([entry(i, frames=frames) for i in range(n)], [0, 1]), 4)


@_add("torch_flight", "one list in all stacks")
def _share_in_stacks(n: int) -> bytes:
    frames = _frames(n // 8)
    stacks = ([{"name": "x", "filename": "y", "line": frames}] for _ in range(n))
    return pickle.dumps(_dump([entry(i, frames=s) for i, s in enumerate(stacks)], [0, 1]), 4)


@_add("torch_flight", "a list in itself twice, and so on")
def _share_twice(n: int) -> bytes:
    inner: list[Any] = []
    for _ in range(min(n, 300)):
        inner = [inner, inner]
    return pickle.dumps(_dump([entry(i, frames=inner) for i in range(n)], [0, 1]), 4)


@_add("torch_flight", "JSON")
def _as_json(n: int) -> bytes:
    return json.dumps(_dump([entry(i, frames=_frames(9)) for i in range(n)], [0, 1])).encode()


def _plane(name: str, line: str, n: int, event: bytes, names: str, stat: str = "") -> bytes:
    """A plane with `n` events of one kind, whose name and second statistic's name are given."""
    events = b"".join(
        field(4, field(1, 1) + field(2, 1000 * i) + field(3, 500) + event) for i in range(n)
    )
    kinds = field(4, field(1, 1) + field(2, field(1, 1) + field(2, names.encode())))
    stats = b"".join(
        field(5, field(1, i) + field(2, field(1, i) + field(2, text.encode())))
        for i, text in enumerate((stat, "abc:1 .7 " * (n if stat else 0)), 1)
    )
    lines = field(3, field(1, 7) + field(2, line.encode()) + field(3, 1000) + events)
    return field(1, field(1, 1) + field(2, name.encode()) + lines + kinds + stats)


_REFERS = field(4, field(1, 1) + field(7, 2))  # a statistic whose value is the second name
CASES |= {
    "xplane/events": ("xplane", lambda n: _plane("/host:CPU", "python", n, b"", "foo")),
    "xplane/long name": ("xplane", lambda n: _plane("/host:CPU", "python", n, b"", "f::" * n)),
    "xplane/long details": (
        "xplane",
        lambda n: _plane("/device:GPU:0", "Stream #1", n, _REFERS, "foo", "kernel_details"),
    ),
    "xplane/long operation": (
        "xplane",
        lambda n: _plane("/device:GPU:0", "Stream #1", n, _REFERS, "foo", "hlo_op"),
    ),
    "xplane/long category": (
        "xplane",
        lambda n: _plane("/device:TPU:0", "XLA Ops", n, _REFERS, "%a = f(x)" * n, "hlo_category"),
    ),
}
