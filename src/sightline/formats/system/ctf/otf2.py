"""OTF2 archives that were written as CTF (otf2-to-ctf of Trace Compass): what their events mean.

Each record of OTF2 is an event of its name, each definition one, too, which all come first:
GlobalDef_String, _Region, _Group, _GroupMember, _Comm, _Location, _LocationGroup; then Event_Enter,
Event_Leave, Event_MpiSend and so on, whose locationID says of which thread they are. Numbers of
enumerations are those of OTF2 3.0 (OTF2_GeneralDefinitions.h).
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Quality
from sightline.formats._otf2_records import COLLECTIVE, MESSAGES, RECORD, Ranks

_NEEDED = {"GlobalDef_Region", "GlobalDef_String", "Event_Enter", "Event_Leave"}
_GROUPS = {4: "COMM_LOCATIONS", 5: "COMM_GROUP", 6: "COMM_SELF"}
_PARADIGMS = {1: "annotation", 3: "openmp", 4: "mpi", 5: "runtime"}
_MPI = 4
_MOST_EVENTS = 5_000_000  # each takes some 0.3 kB while it is read here
# Fields of events as OTF2's library calls them.
_FIELDS = {
    "receiver": "receiver", "sender": "sender", "msgTag": "msg_tag", "msgLength": "msg_length",
    "requestID": "request_id", "root": "root", "sizeSent": "size_sent",
    "sizeReceived": "size_received",
}  # fmt: skip
_RANGES = {
    "pid": pl.Int64, "tid": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64,
    "name": pl.String, "layer": pl.String, "range": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Group:
    group_type: str
    paradigm: str
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Comm:
    name: str
    group: _Group | None


def is_archive(host: pl.DataFrame) -> bool:
    """Whether these marks are an archive's records."""
    if host.height > _MOST_EVENTS or not {"name", "payload"} <= set(host.columns):
        return False
    return set(host.get_column("name").unique()) >= _NEEDED


def rebuild(host: pl.DataFrame) -> tuple[dict[str, pl.DataFrame], list[Quality]]:
    """Tables `host_ops`, `mpi_events` and `threads` of the marks, and what was left out."""
    definitions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    events = []
    for name, payload, at in (
        host.sort("start_ns", "host_op_id").select("name", "payload", "start_ns").iter_rows()
    ):
        fields = _parse(payload)
        if fields is None:
            continue
        if name.startswith("GlobalDef_"):
            definitions[name.removeprefix("GlobalDef_")].append(fields)
        elif name.startswith("Event_"):
            events.append((name.removeprefix("Event_"), fields, at))
    reading = _Reading(definitions)
    for name, fields, at in events:
        reading.take(name, fields, at)
    return reading.finish()


def _parse(payload: str | None) -> dict[str, Any] | None:
    """The fields that are numbers or text: a file may hold anything else under their names."""
    try:
        found = json.loads(payload or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {
        name: value
        for name, value in found.items()
        if type(value) is (str if name == "stringValue" else int)
    }


class _Reading:
    """The definitions, and what is open on each location."""

    def __init__(self, definitions: dict[str, list[dict[str, Any]]]) -> None:
        self._texts = {d.get("self"): str(d.get("stringValue", "")) for d in definitions["String"]}
        self._regions = {
            d.get("self"): (self._text(d.get("name")), d.get("paradigm"))
            for d in definitions["Region"]
        }
        groups = [d.get("self") for d in definitions["LocationGroup"]]
        self._names = {
            d.get("self"): self._text(d.get("name")) for d in definitions["LocationGroup"]
        }
        self._places: dict[Any, tuple[int, int, Any]] = {}  # pid, tid, its group
        counts: dict[Any, int] = defaultdict(int)
        for location in definitions["Location"]:
            group = location.get("locationGroup")
            pid = groups.index(group) if group in groups else len(groups)
            self._places[location.get("self")] = (pid, counts[group], group)
            counts[group] += 1
        numbers = {location: n for n, location in enumerate(self._places)}
        self._numbers = numbers
        groups_, self._comms = self._define(definitions)
        defined = SimpleNamespace(groups=groups_, comms=list(self._comms.values()))
        self._ranks = Ranks(defined, numbers)
        self._open: dict[Any, list[list[Any]]] = defaultdict(list)
        self._ranges: list[tuple[Any, ...]] = []
        self._records: list[tuple[Any, ...]] = []
        self._begun = self._unmatched = self._last = 0

    def _text(self, number: Any) -> str:
        return self._texts.get(number) or "?"

    def _define(
        self, definitions: dict[str, list[dict[str, Any]]]
    ) -> tuple[list[_Group], dict[Any, _Comm]]:
        """Groups, and communicators by number, as OTF2's library has them."""
        members: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for member in definitions["GroupMember"]:
            members[member.get("group")].append((member.get("rank", 0), member.get("location")))
        world: list[Any] = []
        groups: dict[Any, _Group] = {}
        for group in definitions["Group"]:
            kind = _GROUPS.get(group.get("groupType", 0), "OTHER")
            own = [location for _, location in sorted(members[group.get("self")], key=_first)]
            is_mpi = group.get("paradigm") == _MPI
            if kind == "COMM_LOCATIONS" and is_mpi:
                world = own
            elif kind == "COMM_GROUP":  # its members are places in the list of all ranks
                own = [world[n] for n in own if isinstance(n, int) and 0 <= n < len(world)]
            name = "MPI" if is_mpi else "OTHER"
            groups[group.get("self")] = _Group(kind, name, tuple(own))
        comms = {
            comm.get("self"): _Comm(
                self._texts.get(comm.get("name"), ""), groups.get(comm["group"])
            )
            for comm in definitions["Comm"]
            if "group" in comm
        }
        return list(groups.values()), comms

    def take(self, name: str, fields: dict[str, Any], at: int) -> None:
        """One event."""
        place = fields.get("locationID")
        if place not in self._places:
            self._unmatched += 1
            return
        self._last = max(self._last, at)
        stack = self._open[place]
        if name == "Enter":
            text, paradigm = self._regions.get(fields.get("region"), ("?", None))
            stack.append([at, text, _PARADIGMS.get(paradigm or 0, "other"), self._begun])
            self._begun += 1
        elif name == "Leave":
            self._close(place, at)
        elif stack and (name in MESSAGES or name == COLLECTIVE):
            event = SimpleNamespace(
                **{ours: fields[theirs] for theirs, ours in _FIELDS.items() if theirs in fields},
                communicator=self._comms.get(fields.get("communicator")),
            )
            if name != COLLECTIVE or {"root", "size_sent", "size_received"} <= set(vars(event)):
                row = self._ranks.describe(self._numbers[place], name, event)
                self._records.append((stack[-1][3], *row))

    def _close(self, place: Any, at: int) -> None:
        stack = self._open[place]
        if not stack:
            self._unmatched += 1
            return
        start, name, layer, number = stack.pop()
        pid, tid, _ = self._places[place]
        self._ranges.append((pid, tid, start, max(start, at), name, layer, number))

    def finish(self) -> tuple[dict[str, pl.DataFrame], list[Quality]]:
        """Ranges that nothing ended end with the last event."""
        for place, stack in list(self._open.items()):
            self._unmatched += len(stack)
            while stack:
                self._close(place, self._last)
        ranges = pl.DataFrame(self._ranges, schema=_RANGES, orient="row")
        kind = pl.when(pl.col("layer") == "annotation").then(pl.lit("pushpop"))
        host = nest_ranges(ranges.with_columns(range_kind=kind))
        records = pl.DataFrame(self._records, schema={"range": pl.Int64, **RECORD}, orient="row")
        tables = {
            "host_ops": host.drop("range"),
            "mpi_events": records.join(host.select("range", "host_op_id"), on="range")
            .sort("host_op_id")
            .drop("range"),
            "threads": pl.DataFrame(
                [(pid, tid, self._names.get(group)) for pid, tid, group in self._places.values()],
                schema={"pid": pl.Int64, "tid": pl.Int64, "process_name": pl.String},
                orient="row",
            ),
        }
        notes = []
        if self._unmatched:
            text = (
                "ranges whose start is missing were left out; those whose end is missing end "
                "with the recording"
            )
            notes.append(Quality("unclosed_ranges", "warning", text, self._unmatched))
        return tables, notes


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]
