"""What the CTF reader reads, event by event, and what babeltrace2 reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sightline.formats.system.ctf.classes import NOTHING, Integer, VariableInteger
from sightline.formats.system.ctf.decode import Reading, count_ns
from sightline.formats.system.ctf.folders import Trace, find_traces
from sightline.formats.system.ctf.metadata import read_metadata
from sightline.formats.system.ctf.plan import (
    Choice,
    Group,
    Leaf,
    Maybe,
    Repeated,
    Shape,
    compile_plan,
)

_MISSING = object()


@dataclass(frozen=True)
class Event:
    """An event with its fields as plain values."""

    name: str
    id: int
    ns: int | None
    common: dict[str, Any]
    specific: dict[str, Any]
    payload: dict[str, Any]
    has_payload: bool  # declared, though it may have no field


def read_events(folder: Path) -> list[Event]:
    """The events of all traces in a folder, in order of time."""
    events = [event for trace in find_traces(folder) for event in _read_trace(trace)]
    return sorted(events, key=lambda e: (e.ns is not None, e.ns or 0))


def _read_trace(trace: Trace) -> Iterator[Event]:
    metadata = read_metadata(trace.folder / "metadata")
    plan = compile_plan(metadata)
    reading = Reading(trace, plan)
    batches = list(reading.read_batches(most_events=1000, most_bytes=1 << 16))
    for batch in batches:
        tables = {number: _Rows(frame) for number, frame in batch.tables.items()}
        for shape in plan.events:
            if shape.table not in tables:
                continue
            clock = metadata.clocks.get(metadata.streams[shape.event.stream_class].clock or "")
            rows = tables[shape.table]
            frame = rows.frame
            ns = [None] * len(frame)
            if clock is not None:
                ns = frame.select(ns=count_ns(clock)).get_column("ns").to_list()
            for i in range(len(frame)):
                row = rows.next()
                parts = [
                    _value(part, row, tables)
                    for part in (shape.common, shape.specific, shape.payload)
                ]
                event = shape.event
                yield Event(event.name, event.id, ns[i], *parts, event.payload is not NOTHING)


class _Rows:
    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        self._rows = iter(frame.iter_rows(named=True))

    def next(self) -> dict[str, Any]:
        return next(self._rows)


def _value(shape: Shape, row: dict[str, Any], tables: dict[int, _Rows]) -> Any:
    if isinstance(shape, Leaf):
        value = row[str(shape.column)]
        if isinstance(shape.kind, Integer) and shape.kind.is_boolean:
            return bool(value)
        if isinstance(shape.kind, (Integer, VariableInteger)) and shape.kind.base == 16:
            return Hex(value & (2 ** getattr(shape.kind, "size", 64) - 1))
        return list(value) if isinstance(value, bytes) else value
    if isinstance(shape, Group):
        found = {name: _value(member, row, tables) for name, member in shape.members}
        return {name: value for name, value in found.items() if value is not _MISSING}
    if isinstance(shape, Choice):
        return _value(shape.options[row[str(shape.column)]][1], row, tables)
    if isinstance(shape, Maybe):
        there = row[str(shape.column)] is not None
        return _value(shape.content, row, tables) if there else _MISSING
    assert isinstance(shape, Repeated)
    inner = tables.get(shape.table)
    count = row[str(shape.column)]
    return [_value(shape.element, inner.next(), tables) for _ in range(count)] if inner else []


class Hex(int):
    """A number that babeltrace2 shows in base 16."""


def describe(event: Event) -> str:
    """The event as the sink `text.details` of babeltrace2 prints it."""
    lines = [f"Event `{event.name}` (Class ID {event.id}):"]
    for title, part in (
        ("Common context", event.common),
        ("Specific context", event.specific),
        ("Payload", event.payload),
    ):
        if part or (title == "Payload" and event.has_payload):
            lines += _describe(title, part, 2)
    return "\n".join(lines)


def _describe(name: str, value: Any, indent: int) -> list[str]:
    start = " " * indent + f"{name}:"
    if isinstance(value, dict):
        inner = [line for n, v in value.items() for line in _describe(n, v, indent + 2)]
        return [start, *inner] if inner else [f"{start} Empty"]
    if isinstance(value, list):
        if not value:
            return [f"{start} Empty"]
        inner = [line for i, v in enumerate(value) for line in _describe(f"[{i}]", v, indent + 2)]
        return [f"{start} Length {len(value):,}:", *inner]
    if isinstance(value, Hex):
        digits = f"{value:x}"
        groups = [digits[max(0, i - 4) : i] for i in range(len(digits), 0, -4)][::-1]
        return [f"{start} 0x{':'.join(groups)}"]
    if isinstance(value, float):
        return [f"{start} {value:f}"]
    if isinstance(value, int) and not isinstance(value, bool):
        return [f"{start} {value:,}" if abs(value) > 9999 else f"{start} {value}"]
    return [f"{start} {value}"]


PEER = """
import bt2, json, sys
def plain(value):
    if value is None: return None
    cls = value.cls if hasattr(value, "cls") else value.field_class
    if hasattr(value, "selected_option"): return plain(value.selected_option)
    if isinstance(value, bt2._StructureFieldConst): return {k: plain(v) for k, v in value.items()}
    if isinstance(value, bt2._ArrayFieldConst): return [plain(v) for v in value]
    if isinstance(value, bt2._StringFieldConst): return str(value)
    if isinstance(value, bt2._BoolFieldConst): return bool(value)
    if isinstance(value, bt2._RealFieldConst): return float(value)
    return int(value)
for place in sys.argv[1:]:
    try:
        for message in bt2.TraceCollectionMessageIterator(place):
            if type(message) is not bt2._EventMessageConst: continue
            event = message.event
            has_clock = event.stream.cls.default_clock_class
            ns = message.default_clock_snapshot.ns_from_origin if has_clock else None
            parts = (event.common_context_field, event.specific_context_field, event.payload_field)
            said = [plain(part) or {} for part in parts]
            print(json.dumps([place, event.name, event.cls.id, ns, *said]))
    except Exception:
        pass  # as far as it could be read
"""


def find_peer() -> str | None:
    """The Python that has babeltrace2's bindings, which no virtual environment has."""
    for python in ("/usr/bin/python3", shutil.which("python3")):
        if (
            python
            and subprocess.run([python, "-c", "import bt2"], capture_output=True).returncode == 0
        ):
            return python
    return None


def read_peer_events(python: str, folders: list[Path]) -> dict[str, list[Any]]:
    """The events of each folder as babeltrace2 reads them, as far as it does."""
    command = [python, "-c", PEER, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, list[Any]] = {str(folder): [] for folder in folders}
    for line in done.stdout.splitlines():
        place, *event = json.loads(line)
        found[place].append(event)
    return found
