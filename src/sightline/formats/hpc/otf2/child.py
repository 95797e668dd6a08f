"""Reads an archive with OTF2's library and writes its rows as Arrow files: run as a process.

python -m sightline.formats.hpc.otf2.child traces.otf2 FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import otf2  # type: ignore[import-not-found, import-untyped, unused-ignore]
import polars as pl

from sightline.formats._otf2_records import COLLECTIVE, MESSAGES, RECORD, Ranks

_ACCELERATORS = ("GPU", "ACCELERATOR_STREAM")
_LAST = 2**62
# How Score-P writes a device's copies on its stream (adapters of CUDA, HIP and OpenCL): the device
# gets from a host or puts to it, from the record of either to that of its completion.
_COPIES = {"RmaGet": "HtoD", "RmaPut": "DtoH"}
_COMPLETED = ("RmaOpCompleteBlocking", "RmaOpCompleteNonBlocking")


class _Rows:
    """What was read so far: closed ranges of each location, metrics' values, MPI's records."""

    def __init__(self, resolution: int, ranks: Ranks) -> None:
        self._resolution = resolution
        self._ranks = ranks
        self.ranges: list[tuple[Any, ...]] = []
        self.values: list[tuple[Any, ...]] = []
        self.records: list[tuple[Any, ...]] = []
        self.copies: list[tuple[Any, ...]] = []
        self.unmatched = 0
        self._copying: dict[tuple[int, int], tuple[int, str, int]] = {}
        self._open: dict[int, list[list[Any]]] = {}
        self._last = 0
        self._begun = 0

    def to_ns(self, ticks: int) -> int:
        """Ticks of the archive's clock as ns, rounded down."""
        ns = ticks * 1_000_000_000 // self._resolution
        self._last = max(self._last, ns) if ns < _LAST else self._last
        return min(ns, _LAST)

    def enter(self, place: int, when: int, region: Any) -> None:
        """A range begins."""
        role, paradigm = (str(x).rpartition(".")[2] for x in (region.region_role, region.paradigm))
        opened = [when, region.name, role, paradigm, None, self._begun]
        self._open.setdefault(place, []).append(opened)
        self._begun += 1

    def leave(self, place: int, when: int, region: str | None = None) -> None:
        """The innermost open range of a location ends; one of another region is unmatched."""
        stack = self._open.get(place)
        if not stack:
            self.unmatched += 1
            return
        start, name, role, paradigm, call, number = stack.pop()
        self.unmatched += region not in (None, name)
        self.ranges.append((place, start, max(start, when), name, role, paradigm, call, number))

    def call(self, place: int, number: int) -> None:
        """What tells which call a range belongs to: of the innermost open one."""
        stack = self._open.get(place)
        if stack and 0 < number < 2**63:
            stack[-1][4] = number

    def record(self, place: int, kind: str, event: Any) -> None:
        """What MPI's library communicates: of the innermost open range."""
        stack = self._open.get(place)
        if stack:
            self.records.append((stack[-1][5], *self._ranks.describe(place, kind, event)))

    def begin_copy(self, place: int, when: int, kind: str, event: Any) -> None:
        """A device begins to copy; one that nothing completed before is unmatched."""
        key = (place, event.matching_id)
        self.unmatched += key in self._copying
        self._copying[key] = (when, kind, min(event.bytes, _LAST))

    def end_copy(self, place: int, when: int, event: Any) -> None:
        """A device's copy is complete."""
        begun = self._copying.pop((place, event.matching_id), None)
        if begun is None:
            self.unmatched += 1
            return
        start, kind, size = begun
        self.copies.append((place, start, max(start, when), kind, size))

    def close(self) -> None:
        """Ranges that nothing ended end with the last record; such copies are left out."""
        self.unmatched += len(self._copying)
        for place, stack in self._open.items():
            self.unmatched += len(stack)
            while stack:
                self.leave(place, self._last)


def main(archive: str, folder: str) -> int:
    """Write the Arrow files and facts.json into the folder."""
    with otf2.reader.open(archive) as reader:
        definitions = reader.definitions
        places = {location: at for at, location in enumerate(definitions.locations)}
        rows = _Rows(int(reader.timer_resolution), Ranks(definitions, places))
        devices = [_is_device(location) for location in definitions.locations]
        damage = None
        missing = [int(location.number_of_events) for location in definitions.locations]
        try:
            for location, event in reader.events:
                place = places[location]
                missing[place] -= 1
                if not (devices[place] and _take_copy(rows, place, event)):
                    _take(rows, place, event)
        except Exception as error:
            damage = str(error) or type(error).__name__
        rows.close()
        facts = {
            "locations": [_describe(location) for location in definitions.locations],
            "unmatched": rows.unmatched,
            "damage": damage,
            "missing": sum(max(count, 0) for count in missing),
        }
    out = Path(folder)
    (out / "facts.json").write_text(json.dumps(facts))
    schema = {"place": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String}
    schema |= {"role": pl.String, "paradigm": pl.String, "call": pl.Int64, "range": pl.Int64}
    pl.DataFrame(rows.ranges, schema, orient="row").write_ipc(out / "ranges.arrow")
    schema = {"place": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "copy_kind": pl.String}
    pl.DataFrame(rows.copies, schema | {"bytes": pl.Int64}, orient="row").write_ipc(
        out / "copies.arrow"
    )
    schema = {"place": pl.Int64, "time_ns": pl.Int64, "metric": pl.String, "value": pl.Float64}
    pl.DataFrame(rows.values, schema | {"unit": pl.String}, orient="row").write_ipc(
        out / "values.arrow"
    )
    pl.DataFrame(rows.records, {"range": pl.Int64, **RECORD}, orient="row").write_ipc(
        out / "records.arrow"
    )
    return 0


def _take(rows: _Rows, place: int, event: Any) -> None:
    kind = type(event).__name__
    if kind == "Enter":
        rows.enter(place, rows.to_ns(event.time), event.region)
    elif kind == "Leave":
        rows.leave(place, rows.to_ns(event.time), event.region.name)
    elif kind == "ParameterUnsignedInt" and event.parameter.name == "callsite id":
        rows.call(place, event.value)
    elif kind in MESSAGES or kind == COLLECTIVE:
        rows.record(place, kind, event)
    elif kind == "Metric":
        when = rows.to_ns(event.time)
        metric = event.metric
        members = getattr(metric, "metric_class", metric).members
        for member, value in zip(members, event.scaled_values, strict=False):
            unit = member.unit or None
            rows.values.append((place, when, member.name, float(value), unit))


def _take_copy(rows: _Rows, place: int, event: Any) -> bool:
    """Whether the record, of a device's stream, begins or ends a copy."""
    name = type(event).__name__
    if name in _COPIES:
        kind = "DtoD" if _stays_on_devices(event) else _COPIES[name]
        rows.begin_copy(place, rows.to_ns(event.time), kind, event)
    elif name in _COMPLETED:
        rows.end_copy(place, rows.to_ns(event.time), event)
    else:
        return False
    return True


def _stays_on_devices(event: Any) -> bool:
    """Whether the other end of a copy is a device's stream, too; an unknown one is a host."""
    try:
        other = event.win.location(event.remote)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False
    return _is_device(other)


def _is_device(location: Any) -> bool:
    return str(location.type).rpartition(".")[2] in _ACCELERATORS


def _describe(location: Any) -> dict[str, Any]:
    group = location.group
    return {
        "name": location.name,
        "group": group.name,
        "group_id": id(group),
        "is_gpu": _is_device(location),
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
