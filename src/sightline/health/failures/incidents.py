"""Incidents: what interrupted work, once each, from events or from a list that a person keeps.

One fault speaks often: an NVLink that fails is XID 74 a hundred times and XID 45 for each process.
What one node reports within ten minutes is one incident, its cause that of the gravest event.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sightline.core.text import make_printable
from sightline.core.units import parse_duration_ns
from sightline.errors import InputError, RequestError
from sightline.health.failures.causes import Cause, find_cause
from sightline.health.node import Event

# A restart of a large job takes minutes; what comes within them is not another interruption (ours).
SPACING_NS = 600 * 10**9
_GRAVE = {"GPU": 3, "Network": 2, "Host": 2, "Software": 1}
_MOST_BYTES, _MOST_ROWS, _MOST_COUNT = 64 << 20, 1_000_000, 10**9
_MOST_TEXT = 60


class Incident(NamedTuple):
    """An interruption: its cause, where, and when (ns; None where a list does not say)."""

    cause: Cause
    node: str = ""
    time_ns: int | None = None


def list_incidents(node: str, events: Iterable[Event]) -> list[Incident]:
    """The incidents of one node's events, in order of time."""
    found: list[Incident] = []
    last_ns: int | None = None
    for event in sorted(events, key=lambda one: one.time_ns or 0):
        cause = find_cause(event.kind, event.text)
        if cause is None:
            continue
        at = event.time_ns
        if last_ns is not None and at is not None and at - last_ns < SPACING_NS:
            if _weigh(cause) > _weigh(found[-1].cause):
                found[-1] = found[-1]._replace(cause=cause)
        else:
            found.append(Incident(cause, node, at))
        last_ns = at if at is not None else last_ns
    return found


def _weigh(cause: Cause) -> int:
    return _GRAVE.get(cause.category, 0)


class Table(NamedTuple):
    """Incidents of a list, with counts of those that it only adds up."""

    counts: dict[Cause, int]
    incidents: list[Incident]


def read_table(path: Path) -> Table:
    """A CSV file with `component`, perhaps `category`, `count`, `time` (ISO 8601), `node`.

    Raises InputError with the line that is wrong.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"cannot read {path}", why="a list of incidents is 64 MB at most")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error
    rows = csv.DictReader(text.splitlines())
    if "component" not in (rows.fieldnames or ()):
        raise InputError(
            f"cannot read {path}",
            why="it has no column 'component'",
            hint="Its first line: component,category,count   or   component,category,time,node",
        )
    table = Table({}, [])
    try:
        for number, row in enumerate(rows, 2):
            if number > _MOST_ROWS:
                raise InputError(f"cannot read {path}", why=f"it has over {_MOST_ROWS:,} rows")
            _read_row(table, row, f"{path}, line {number}")
    except csv.Error as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error
    if not table.counts:
        raise InputError(f"cannot read {path}", why="there is no incident in it")
    return table


def _read_row(table: Table, row: dict[str, str | None], where: str) -> None:
    component = make_printable((row.get("component") or "").strip())[:_MOST_TEXT]
    if not component:
        raise InputError(f"{where}: no component is named")
    category = make_printable((row.get("category") or "").strip())[:_MOST_TEXT] or "Unknown"
    cause = Cause(component, category)
    text = (row.get("count") or "1").strip()
    if not text.isdecimal() or int(text) > _MOST_COUNT:
        raise InputError(f"{where}: '{text[:40]}' is not a count")
    count = int(text)
    table.counts[cause] = table.counts.get(cause, 0) + count
    if count == 1:
        node = make_printable((row.get("node") or "").strip())[:_MOST_TEXT]
        table.incidents.append(Incident(cause, node, _read_time(row.get("time"), where)))


def _read_time(text: str | None, where: str) -> int | None:
    from datetime import UTC, datetime

    if not text or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as error:
        raise InputError(f"{where}: '{text[:40]}' is not a time (ISO 8601)") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def count_causes(incidents: Sequence[Incident]) -> dict[Cause, int]:
    """How often each cause is there."""
    counts: dict[Cause, int] = {}
    for incident in incidents:
        counts[incident.cause] = counts.get(incident.cause, 0) + 1
    return counts


def parse_hours(text: str) -> float:
    """Hours of `54d`, `36h`, `90min`. Raises RequestError."""
    hours = parse_duration_ns(text) / 3.6e12
    if hours <= 0:
        raise RequestError(
            f"'{text}' is not a length of time", hint="Write for example 54d or 36h."
        )
    return hours
