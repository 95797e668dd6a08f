"""The messages of an XPlane file, and a plane's events with their names and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sightline.core.protobuf import declare_messages, decode_text

# Fields by the numbers of tsl/profiler/protobuf/xplane.proto.
_MESSAGES = declare_messages(
    """
XPlane: 1 id int, 2 name text, 3 lines []XLine, 4 event_metadata []EventEntry,
    5 stat_metadata []StatEntry, 6 stats []XStat
EventEntry: 1 key int, 2 value XEventMetadata
StatEntry: 1 key int, 2 value XStatMetadata
XLine: 1 id int, 2 name text, 3 timestamp_ns int, 4 events []XEvent, 11 display_name text
XEvent: 1 metadata_id int, 2 offset_ps int, 3 duration_ps int, 4 stats []XStat
XStat: 1 metadata_id int, 2 double_value double, 3 uint64_value uint, 4 int64_value int,
    5 str_value text, 6 bytes_value bytes, 7 ref_value uint
XEventMetadata: 1 id int, 2 name text, 4 display_name text, 5 stats []XStat
XStatMetadata: 1 id int, 2 name text
"""
)
XPlane = _MESSAGES["XPlane"]
_PS = 1000  # in a ns
_TIME_LIMIT = 2**61
# Statistics that are asked for. No others are kept: a kind of events that has many of them would
# take time for all of them with each of its events.
_ASKED = frozenset(
    {
        "bytes_accessed", "clock_rate", "compute_cap_major", "compute_cap_minor", "core_count",
        "correlation_id", "device_type_string", "device_vendor", "hlo_category", "hlo_module",
        "hlo_op", "kernel_details", "memcpy_details", "memory_bandwidth", "memory_size",
        "memset_details", "process_id", "profile_start_time", "step_num", "_p", "_c", "_pt", "_ct",
        "Hlo Proto",
    }
)  # fmt: skip
# Texts of operations have some 1,000 characters, those of fusions with many operands some 10,000.
_LONGEST_TEXT = 64 << 10


class Event(NamedTuple):
    """An event of a line, times in ns."""

    name: str
    start_ns: int
    end_ns: int
    facts: dict[str, Any]
    text: str = ""  # the operation as XLA spells it, where that is more than its name


class Plane:
    """One plane: names are spelled out once."""

    def __init__(self, message: Any) -> None:
        self.name = decode_text(message.name)
        self.lines = message.lines
        self._stat_names = {
            entry.key: _cut(decode_text(entry.value.name)) for entry in message.stat_metadata
        }
        self._asked = {key: name for key, name in self._stat_names.items() if name in _ASKED}
        self._events = {entry.key: entry.value for entry in message.event_metadata}
        self._kinds: dict[int, tuple[str, str, dict[str, Any]]] = {}
        self.facts = self._read_stats(message.stats)
        self.fact_count = len(message.stats)
        self.bad_times = 0

    def list_events(self, line: Any) -> Iterator[Event]:
        """A line's events; those whose times are beyond all sense are counted instead."""
        for event in line.events:
            start = line.timestamp_ns * _PS + event.offset_ps
            end = start + event.duration_ps
            if event.duration_ps < 0 or not 0 <= start <= end < _TIME_LIMIT * _PS:
                self.bad_times += 1
                continue
            name, text, shared = self._describe_kind(event.metadata_id)
            facts = shared | self._read_stats(event.stats)
            yield Event(name, _round(start), _round(end), facts, text)

    def list_programs(self) -> Iterator[tuple[str, bytes]]:
        """The compiled programs that a plane of metadata holds: name, and HloProto."""
        for metadata in self._events.values():
            hlo = self._read_stats(metadata.stats).get("Hlo Proto")
            if isinstance(hlo, bytes):
                yield decode_text(metadata.name), hlo

    def _describe_kind(self, number: int) -> tuple[str, str, dict[str, Any]]:
        """What events of one kind share: name, text and statistics, as an operation's FLOPs."""
        if number not in self._kinds:
            metadata = self._events.get(number)
            if metadata is None:
                return "unnamed", "", {}
            name = _cut(decode_text(metadata.display_name or metadata.name)) or "unnamed"
            text = _cut(decode_text(metadata.name))
            self._kinds[number] = name, text, self._read_stats(metadata.stats)
        return self._kinds[number]

    def _read_stats(self, stats: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for stat in stats:
            name = self._asked.get(stat.metadata_id)
            if name is None:
                continue
            for field, value in stat.ListFields():
                if field.name == "ref_value":
                    found[name] = self._stat_names.get(value, "")
                elif field.name == "str_value":
                    found[name] = _cut(decode_text(value))
                elif field.name != "metadata_id":
                    found[name] = value
            found.setdefault(name, 0)  # a number that is 0 is not written
        return found


def _cut(text: str) -> str:
    return text[:_LONGEST_TEXT]


def _round(ps: int) -> int:
    """Picoseconds as nanoseconds, half to even: as all times are rounded here."""
    whole, rest = divmod(ps, _PS)
    return whole + (rest > _PS // 2 or (rest == _PS // 2 and whole % 2))
