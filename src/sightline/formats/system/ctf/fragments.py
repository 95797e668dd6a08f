"""The metadata of CTF 2: a JSON text sequence of fragments (CTF2-SPEC-2.0).

Names of earlier drafts, which Trace Compass writes, are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from sightline.formats.system.ctf.classes import (
    NOTHING,
    Array,
    Bytes,
    Clock,
    EventClass,
    Field,
    Integer,
    Label,
    Metadata,
    MetadataError,
    Option,
    Optional,
    Origin,
    Place,
    Real,
    StreamClass,
    String,
    Structure,
    VariableInteger,
    Variant,
)

_SEPARATORS = "\x1e \t\r\n"
_CLOCK_ROLES = {"default-clock-timestamp", "packet-end-default-clock-timestamp"}
_ORIGINS = get_args(Origin)
_MOST_NESTING = 64

_Object = Mapping[str, Any]


def parse_fragments(text: str) -> Metadata:
    """What a JSON text sequence declares. Raises MetadataError with the fragment that is wrong."""
    reader = _Reader()
    for number, fragment in enumerate(_split(text), 1):
        try:
            reader.add(fragment)
        except MetadataError as error:
            raise MetadataError(f"fragment {number}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            missing = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise MetadataError(f"fragment {number}: {missing}") from None
        except RecursionError:
            raise MetadataError(f"fragment {number}: it is nested too deeply") from None
    return reader.finish()


def _split(text: str) -> list[_Object]:
    decoder = json.JSONDecoder()
    fragments: list[_Object] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _SEPARATORS:
            at += 1
        if at == len(text):
            return fragments
        try:
            fragment, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"fragment {len(fragments) + 1} is not JSON: {error}") from None
        if not isinstance(fragment, dict):
            raise MetadataError(f"fragment {len(fragments) + 1} is not a JSON object")
        fragments.append(fragment)


class _Reader:
    def __init__(self) -> None:
        self._metadata = Metadata(2)
        self._aliases: dict[str, _Object] = {}
        self._read: dict[tuple[str, str | None], Field] = {}
        self._clock_ids: dict[str, str] = {}
        self._has_preamble = False

    def add(self, fragment: _Object) -> None:
        kind = fragment["type"]
        if not self._has_preamble:
            if kind != "preamble":
                raise MetadataError("the first fragment is not a preamble")
            if fragment["version"] != 2:
                raise MetadataError(f"it is of CTF {fragment['version']}, not 2")
            self._has_preamble = True
            self._take_uuid(fragment)
        elif kind == "field-class-alias":
            self._aliases[fragment["name"]] = fragment["field-class"]
        elif kind == "trace-class":
            self._add_trace(fragment)
        elif kind == "clock-class":
            self._add_clock(fragment)
        elif kind == "data-stream-class":
            self._add_stream(fragment)
        elif kind == "event-record-class":
            self._add_event(fragment)
        # A reader leaves fragments of other types alone (CTF2-SPEC-2.0, 5.1).

    def finish(self) -> Metadata:
        if not self._has_preamble:
            raise MetadataError("it has no fragment")
        return self._metadata

    def _take_uuid(self, fragment: _Object) -> None:
        if "uuid" in fragment:
            self._metadata.uuid = bytes(fragment["uuid"])
            if len(self._metadata.uuid) != 16:
                raise MetadataError("the uuid is malformed")

    def _add_trace(self, fragment: _Object) -> None:
        if self._metadata.uuid is None:
            self._take_uuid(fragment)
        self._metadata.packet_header = self._read_structure(fragment, "packet-header-field-class")
        environment = fragment.get("environment", {})
        self._metadata.environment = {
            str(name): value for name, value in environment.items() if isinstance(value, (int, str))
        }

    def _add_clock(self, fragment: _Object) -> None:
        offset = fragment.get("offset-from-origin", fragment.get("offset", {}))
        name = str(fragment.get("name", fragment.get("id", "")))
        frequency = fragment["frequency"]
        if not isinstance(frequency, int) or not 0 < frequency < 2**64:
            raise MetadataError("a clock has no frequency")
        self._clock_ids[str(fragment.get("id", name))] = name
        self._metadata.clocks[name] = Clock(
            name,
            frequency,
            int(offset.get("seconds", 0)),
            int(offset.get("cycles", 0)),
            fragment.get("origin", "unix-epoch") == "unix-epoch",
        )

    def _add_stream(self, fragment: _Object) -> None:
        clock = fragment.get("default-clock-class-id", fragment.get("default-clock-class-name"))
        if clock is not None:
            clock = self._clock_ids.get(clock, clock)
            if clock not in self._metadata.clocks:
                raise MetadataError(f"there is no clock {clock!r}")
        stream = StreamClass(
            _read_number(fragment, "id", 0),
            self._read_structure(fragment, "packet-context-field-class", clock),
            self._read_structure(fragment, "event-record-header-field-class", clock),
            self._read_structure(fragment, "event-record-common-context-field-class"),
            clock,
        )
        if stream.id in self._metadata.streams:
            raise MetadataError(f"there are two streams {stream.id}")
        self._metadata.streams[stream.id] = stream

    def _add_event(self, fragment: _Object) -> None:
        stream = _read_number(fragment, "data-stream-class-id", 0)
        event = EventClass(
            _read_number(fragment, "id", 0),
            stream,
            str(fragment.get("name", "")),
            self._read_structure(fragment, "specific-context-field-class"),
            self._read_structure(fragment, "payload-field-class"),
        )
        if stream not in self._metadata.streams:
            raise MetadataError(f"there is no stream {stream}")
        if (stream, event.id) in self._metadata.events:
            raise MetadataError(f"there are two events {event.id} of one stream")
        self._metadata.events[stream, event.id] = event

    def _read_structure(self, owner: _Object, key: str, clock: str | None = None) -> Structure:
        if key not in owner:
            return NOTHING
        kind = self._read_field(owner[key], clock, 0)
        if not isinstance(kind, Structure):
            raise MetadataError(f"{key} is not a structure")
        return kind

    def _read_field(self, given: _Object | str, clock: str | None, depth: int) -> Field:
        if depth > _MOST_NESTING:
            raise MetadataError("it is nested too deeply")
        if isinstance(given, str):
            if given not in self._aliases:
                raise MetadataError(f"there is no field class {given!r}")
            if (given, clock) not in self._read:
                self._read[given, clock] = self._read_field(self._aliases[given], clock, depth + 1)
            return self._read[given, clock]
        kind = given["type"]
        if kind == "structure":
            members = tuple(
                (str(m["name"]), self._read_field(m["field-class"], clock, depth + 1))
                for m in given.get("member-classes", ())
            )
            return Structure(members, _read_alignment(given, "minimum-alignment"))
        if kind in ("static-length-array", "dynamic-length-array"):
            element = self._read_field(given["element-field-class"], clock, depth + 1)
            alignment = _read_alignment(given, "minimum-alignment")
            return Array(element, _read_length(given), alignment)
        if kind == "variant":
            options = tuple(
                Option(
                    str(option.get("name", number)),
                    self._read_field(option["field-class"], clock, depth + 1),
                    _read_ranges(option["selector-field-ranges"]),
                )
                for number, option in enumerate(given["options"])
            )
            return Variant(_read_place(given["selector-field-location"]), options)
        if kind == "optional":
            ranges = given.get("selector-field-ranges")
            return Optional(
                _read_place(given["selector-field-location"]),
                self._read_field(given["field-class"], clock, depth + 1),
                None if ranges is None else _read_ranges(ranges),
            )
        return _read_scalar(given, clock)


def _read_scalar(given: _Object, clock: str | None) -> Field:
    kind = str(given["type"])
    roles = frozenset(given.get("roles", ()))
    own_clock = clock if roles & _CLOCK_ROLES else None
    if kind.startswith("variable-length-"):
        return VariableInteger(
            is_signed="unsigned" not in kind,
            base=_read_number(given, "preferred-display-base", 10),
            labels=_read_labels(given),
            is_enumeration="enumeration" in kind or bool(given.get("mappings")),
            clock=own_clock,
            roles=roles,
        )
    if kind in ("null-terminated-string", "string"):
        return String()
    if kind in ("static-length-string", "dynamic-length-string"):
        return Bytes(_read_length(given), is_text=True)
    if kind in ("static-length-blob", "dynamic-length-blob"):
        return Bytes(_read_length(given), roles=roles)
    if not kind.startswith("fixed-length-"):
        raise MetadataError(f"{kind!r} is not a class of fields")
    order = given["byte-order"]
    if order not in ("big-endian", "little-endian"):
        raise MetadataError(f"{order!r} is not a byte order")
    is_big = order == "big-endian"
    natural = "last-to-first" if is_big else "first-to-last"
    size, alignment = _read_number(given, "length"), _read_alignment(given, "alignment")
    is_reversed = given.get("bit-order", natural) != natural
    if kind == "fixed-length-floating-point-number":
        if size not in (16, 32, 64):
            raise MetadataError(f"a number of {size} bits with a point cannot be read")
        return Real(size, alignment, is_big, is_reversed)
    if not 1 <= size <= 64:
        raise MetadataError(f"an integer has {size} bits, not 1 to 64")
    return Integer(
        size,
        alignment,
        "-signed-" in kind,
        is_big,
        is_reversed,
        _read_number(given, "preferred-display-base", 10 if "integer" in kind else 16),
        _read_labels(given),
        is_enumeration="enumeration" in kind or ("integer" in kind and bool(given.get("mappings"))),
        is_boolean=kind == "fixed-length-boolean",
        clock=own_clock,
        roles=roles,
    )


def _read_number(given: _Object, key: str, default: int | None = None) -> int:
    value = given[key] if default is None else given.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise MetadataError(f"{key} is {value!r}, not a number")
    return value


def _read_alignment(given: _Object, key: str) -> int:
    alignment = _read_number(given, key, 1)
    if alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise MetadataError(f"{key} is {alignment}, not a power of two")
    return alignment


def _read_length(given: _Object) -> int | Place:
    if str(given["type"]).startswith("static-"):
        return _read_number(given, "length")
    return _read_place(given["length-field-location"])


def _read_place(given: _Object | Sequence[str]) -> Place:
    """A location: an origin and a path, or as drafts have it, one list with both."""
    path: Sequence[str | None]
    if isinstance(given, Mapping):
        path, origin = given["path"], given.get("origin")
    else:
        path, origin = given, None
        if path and path[0] in _ORIGINS:
            path, origin = path[1:], path[0]
    if origin is not None and origin not in _ORIGINS:
        raise MetadataError(f"{origin!r} is not a place of fields")
    names = tuple(str(name) for name in path if name is not None)
    up = None if origin is not None else len(path) - len(names)
    return Place(names, cast("Origin | None", origin), up)


def _read_ranges(given: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(lowest), int(highest)) for lowest, highest in given)


def _read_labels(given: _Object) -> tuple[Label, ...]:
    return tuple(
        Label(str(name), lowest, highest)
        for name, ranges in given.get("mappings", {}).items()
        for lowest, highest in _read_ranges(ranges)
    )
