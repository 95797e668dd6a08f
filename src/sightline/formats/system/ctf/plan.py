"""Compiles metadata into the instructions that native/ctf executes, and says which column is what.

native/ctf/plan.h describes the instructions; both files change together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sightline.formats.system.ctf.classes import (
    Array,
    Bytes,
    EventClass,
    Field,
    Integer,
    Metadata,
    MetadataError,
    Optional,
    Origin,
    Place,
    Real,
    StreamClass,
    String,
    Structure,
    VariableInteger,
    Variant,
    find_alignment,
)

_OPS = ("integer", "real", "variable", "string", "text", "blob", "align", "repeat", "select")
_KINDS = ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "text", "blob")
_FLAGS = ("signed", "big", "reversed", "sets_clock", "uuid", "may_miss", "end")
# Registers of what fields mean (plan.h: Register). A time of an event needs none.
_REGISTERS = {
    "packet-magic-number": 0,
    "data-stream-class-id": 1,
    "data-stream-id": 2,
    "packet-total-length": 3,
    "packet-content-length": 4,
    "packet-end-default-clock-timestamp": 6,
    "discarded-event-record-counter-snapshot": 7,
    "packet-sequence-number": 8,
    "event-record-class-id": 9,
}
_BEGIN, _FREE = 5, 10
_NONE = -1
_MOST_CODE = 1 << 22
_MOST_REGISTERS = 1 << 20
_HIGHEST = 2**64 - 1
_ORDER: tuple[Origin, ...] = (
    "event-record-payload",
    "event-record-specific-context",
    "event-record-common-context",
    "event-record-header",
    "packet-context",
    "packet-header",
)


@dataclass(frozen=True)
class Leaf:
    """A column with a field's value."""

    column: int
    kind: Field


@dataclass(frozen=True)
class Group:
    """Fields of a structure."""

    members: tuple[tuple[str, Shape], ...] = ()


@dataclass(frozen=True)
class Repeated:
    """An array: a column with its length; its elements are the next rows of another table."""

    column: int
    table: int
    element: Shape


@dataclass(frozen=True)
class Choice:
    """A variant: a column with the option's place; columns of other options are null."""

    column: int
    options: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class Maybe:
    """An optional field: a column that is null where it is not there."""

    column: int
    content: Shape


Shape = Leaf | Group | Repeated | Choice | Maybe


@dataclass(frozen=True)
class EventShape:
    """The table of an event class, and what its columns are."""

    event: EventClass
    table: int
    common: Group
    specific: Group
    payload: Group


@dataclass
class Plan:
    """What is executed, and what comes out of it."""

    code: bytes
    header_table: int
    header: Group
    contexts: dict[int, tuple[int, Group]]  # by stream class: table and columns of its packets
    events: list[EventShape]
    columns: list[tuple[int, str]]  # of each: its table, and what it holds


Wanted = Callable[[EventClass, str], bool]


@dataclass(eq=False)
class _Instruction:
    op: str
    flags: frozenset[str] = frozenset()
    size: int = 0
    alignment: int = 1
    column: int = _NONE
    store: int = _NONE
    source: int = _NONE
    table: int = 0
    body: int = 0
    first: int = 0
    count: int = 0
    kind: Field | None = None

    def words(self) -> tuple[int, ...]:
        flags = sum(1 << i for i, name in enumerate(_FLAGS) if name in self.flags)
        return (
            _OPS.index(self.op),
            flags,
            *(self.size, self.alignment, self.column, self.store, self.source),
            *(self.table, self.body, self.first, self.count),
        )


_Level = dict[str, "_Instruction | _Level"]


def compile_plan(metadata: Metadata, wanted: Wanted = lambda event, name: True) -> Plan:
    """The plan of a trace's streams. Columns are kept of payload fields that are wanted.

    Raises MetadataError where a length or selector cannot be one.
    """
    return _Compiler(metadata, wanted).compile()


@dataclass
class _Compiler:
    metadata: Metadata
    wanted: Wanted
    code: list[_Instruction] = field(default_factory=list)
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    options: list[tuple[int, int, int, int]] = field(default_factory=list)
    roots: list[bool] = field(default_factory=lambda: [False])  # the first table is for no column
    columns: list[tuple[int, str]] = field(default_factory=list)
    registers: int = _FREE

    def __post_init__(self) -> None:
        self._scopes: dict[Origin, _Level] = {}
        self._levels: list[_Level] = []
        self._origin: Origin = "packet-header"
        self._clock: str | None = None
        self._keeps = True

    def compile(self) -> Plan:
        header_table = self._add_table(is_root=True)
        header_program, header = self._compile_part(
            "packet-header", self.metadata.packet_header, header_table
        )
        header_tables = len(self.roots) - header_table
        streams: list[int] = []
        events: list[int] = []
        contexts: dict[int, tuple[int, Group]] = {}
        shapes: list[EventShape] = []
        for place, stream in enumerate(self.metadata.streams.values()):
            self._clock = stream.clock
            words, contexts[stream.id] = self._compile_stream(stream)
            streams += words
            for event in self.metadata.events.values():
                if event.stream_class == stream.id:
                    words, shape = self._compile_event(place, stream, event)
                    events += words
                    shapes.append(shape)
        has_magic = any("packet-magic-number" in one for one in self._list_roles())
        uuid = self.metadata.uuid or bytes(16)
        words = [
            *(self.registers, has_magic, self.metadata.uuid is not None, *uuid),
            *(len(self.code), *(word for one in self.code for word in one.words())),
            *(len(self.ranges), *(word for one in self.ranges for word in one)),
            *(len(self.options), *(word for one in self.options for word in one)),
            *(len(self.roots), *self.roots),
            len(self.columns),
            *(word for table, kind in self.columns for word in (table, _KINDS.index(kind))),
            *(*header_program, header_table, header_tables),
            *(len(self.metadata.streams), *streams),
            *(len(shapes), *events),
        ]
        code = b"".join(struct.pack("<Q", int(word) % 2**64) for word in words)
        return Plan(code, header_table, header, contexts, shapes, self.columns)

    def _list_roles(self) -> Iterable[frozenset[str]]:
        return (
            getattr(kind, "roles", frozenset()) for _, kind in self.metadata.packet_header.members
        )

    def _compile_stream(self, stream: StreamClass) -> tuple[list[int], tuple[int, Group]]:
        table = self._add_table(is_root=True)
        context, shape = self._compile_part("packet-context", stream.packet_context, table)
        tables = len(self.roots) - table
        header, _ = self._compile_part("event-record-header", stream.event_header, None)
        return [stream.id, *context, *header, table, table, tables], (table, shape)

    def _compile_event(
        self, place: int, stream: StreamClass, event: EventClass
    ) -> tuple[list[int], EventShape]:
        table = self._add_table(is_root=True)
        start = len(self.code)
        _, common = self._compile_part("event-record-common-context", stream.event_context, table)
        _, specific = self._compile_part("event-record-specific-context", event.context, table)
        _, payload = self._compile_part("event-record-payload", event.payload, table, event)
        program = (start, len(self.code) - start)
        words = [place, event.id, *program, table, table, len(self.roots) - table]
        return words, EventShape(event, table, common, specific, payload)

    def _compile_part(
        self, origin: Origin, kind: Structure, table: int | None, event: EventClass | None = None
    ) -> tuple[tuple[int, int], Group]:
        """Instructions of a part of packets or events, and its columns."""
        start = len(self.code)
        self._origin = origin
        self._levels = []
        for later in _ORDER[: _ORDER.index(origin) + 1]:
            self._scopes.pop(later, None)
        self._keeps = table is not None
        shape = self._add_structure(kind, table or 0, event)
        self._scopes[origin] = self._found
        return (start, len(self.code) - start), shape

    def _add_table(self, *, is_root: bool = False) -> int:
        self.roots.append(is_root)
        return len(self.roots) - 1

    def _add_column(self, table: int, kind: str) -> int:
        if not self._keeps:
            return _NONE
        self.columns.append((table, kind))
        return len(self.columns) - 1

    def _emit(self, one: _Instruction) -> _Instruction:
        if len(self.code) >= _MOST_CODE:
            raise MetadataError(f"it declares more than {_MOST_CODE} fields")
        self.code.append(one)
        return one

    # Fields

    def _add_field(self, name: str, kind: Field, table: int) -> Shape:
        if isinstance(kind, Structure):
            shape = self._add_structure(kind, table)
            self._levels[-1][name] = self._found
            return shape
        if isinstance(kind, Array):
            return self._add_array(kind, table)
        if isinstance(kind, Variant):
            return self._add_variant(name, kind, table)
        if isinstance(kind, Optional):
            return self._add_optional(name, kind, table)
        one = self._make_scalar(kind, table)
        self._levels[-1][name] = one
        self._emit(one)
        return Leaf(one.column, kind)

    def _add_structure(self, kind: Structure, table: int, event: EventClass | None = None) -> Group:
        """The structure's fields; `_found` then has those that a place can name."""
        alignment = find_alignment(kind)
        if alignment > 1:
            self._emit(_Instruction("align", size=alignment))
        level: _Level = {}
        self._levels.append(level)
        members = []
        keeps = self._keeps
        for name, member in kind.members:
            shown = self._shorten(name)
            self._keeps = keeps and (event is None or self.wanted(event, shown))
            members.append((shown, self._add_field(name, member, table)))
        self._keeps = keeps
        self._levels.pop()
        self._found = level
        return Group(tuple(members))

    def _shorten(self, name: str) -> str:
        """In TSDL, names of fields have an underscore before them (CTF 1.8.3, 4.2.1)."""
        return name[1:] if self.metadata.version == 1 and name.startswith("_") else name

    def _make_scalar(self, kind: Field, table: int) -> _Instruction:
        if isinstance(kind, Integer):
            width = next(bits for bits in (8, 16, 32, 64) if kind.size <= bits)
            column = self._add_column(table, f"{'i' if kind.is_signed else 'u'}{width}")
            flags = self._list_flags(kind.is_signed, kind.is_big, kind.is_reversed)
            one = _Instruction("integer", flags, kind.size, kind.alignment, column, kind=kind)
            return self._give_meaning(one, kind)
        if isinstance(kind, VariableInteger):
            column = self._add_column(table, "i64" if kind.is_signed else "u64")
            flags = self._list_flags(kind.is_signed, False, False)
            one = _Instruction("variable", flags, 64, 8, column, kind=kind)
            return self._give_meaning(one, kind)
        if isinstance(kind, Real):
            column = self._add_column(table, "f64" if kind.size == 64 else "f32")
            flags = self._list_flags(False, kind.is_big, kind.is_reversed)
            return _Instruction("real", flags, kind.size, kind.alignment, column, kind=kind)
        if isinstance(kind, String):
            return _Instruction("string", alignment=8, column=self._add_column(table, "text"))
        assert isinstance(kind, Bytes)
        op = "text" if kind.is_text else "blob"
        one = _Instruction(op, alignment=8, column=self._add_column(table, op))
        if "metadata-stream-uuid" in kind.roles:
            one.flags |= {"uuid"}
        self._set_count(one, kind.length)
        return one

    def _list_flags(
        self, is_signed: bool, is_big: bool | None, is_reversed: bool
    ) -> frozenset[str]:
        big = self.metadata.is_big if is_big is None else is_big
        given = {"signed": is_signed, "big": big, "reversed": is_reversed}
        return frozenset(name for name, holds in given.items() if holds)

    def _give_meaning(self, one: _Instruction, kind: Integer | VariableInteger) -> _Instruction:
        for role in kind.roles:
            one.store = _REGISTERS.get(role, one.store)
            if role == "default-clock-timestamp" and self._origin == "packet-context":
                one.store = _BEGIN
            if role == "packet-end-default-clock-timestamp":
                one.flags |= {"end"}
        if kind.clock is not None and kind.clock == self._clock:
            one.flags |= {"sets_clock"}
        return one

    def _set_count(self, one: _Instruction, length: int | Place) -> None:
        if isinstance(length, int):
            one.count = min(length, 2**62)
            return
        source = self._find(length)
        if source.kind is None or getattr(source.kind, "is_signed", True):
            raise MetadataError(f"{_name(length)} is a length, but no unsigned integer")
        one.source = self._store(source)

    def _add_array(self, kind: Array, table: int) -> Shape:
        alignment = find_alignment(kind)
        inner = self._add_table() if self._keeps else 0
        one = _Instruction("repeat", alignment=alignment, column=self._add_column(table, "u64"))
        self._set_count(one, kind.length)
        one.table = inner
        self._emit(one)
        start = len(self.code)
        self._levels.append({})
        element = self._add_field("", kind.element, inner)
        self._levels.pop()
        one.body = len(self.code) - start
        return Repeated(one.column, inner, element)

    def _add_variant(self, name: str, kind: Variant, table: int) -> Shape:
        if kind.selector is None:
            raise MetadataError(f"the variant {name!r} has no selector")
        selector = self._find(kind.selector)
        labels = getattr(selector.kind, "labels", None)
        is_enumeration = getattr(selector.kind, "is_enumeration", False)
        if labels is None or (self.metadata.version == 1 and not is_enumeration):
            raise MetadataError(f"{_name(kind.selector)} is a selector, but no enumeration")
        chosen = []
        for option in kind.options:
            ranges = option.ranges
            if ranges is None:
                ranges = tuple(
                    (one.lowest, one.highest) for one in labels if one.name == option.name
                )
            chosen.append((option.name, option.content, ranges))
        one = _Instruction(
            "select", column=self._add_column(table, "u8" if len(chosen) < 256 else "u32")
        )
        shapes = self._add_options(one, selector, chosen, table)
        names = tuple(self._shorten(option) for option, _, _ in chosen)
        self._levels[-1][name] = dict(self._optional_levels)
        return Choice(one.column, tuple(zip(names, shapes, strict=True)))

    def _add_optional(self, name: str, kind: Optional, table: int) -> Shape:
        selector = self._find(kind.selector)
        if selector.kind is None or not isinstance(selector.kind, (Integer, VariableInteger)):
            raise MetadataError(f"{_name(kind.selector)} is a selector, but no integer")
        flags = frozenset({"may_miss"})
        one = _Instruction("select", flags, column=self._add_column(table, "u8"))
        ranges = ((1, _HIGHEST),) if kind.ranges is None else kind.ranges
        (shape,) = self._add_options(one, selector, [(name, kind.content, ranges)], table)
        return Maybe(one.column, shape)

    def _add_options(
        self,
        one: _Instruction,
        selector: _Instruction,
        chosen: list[tuple[str, Field, tuple[tuple[int, int], ...]]],
        table: int,
    ) -> list[Shape]:
        is_signed = int("signed" in selector.flags)
        one.source = self._store(selector)
        one.count = len(chosen)
        self._emit(one)
        start = len(self.code)
        places, shapes = [], []
        inner: _Level = {}
        self._levels.append(inner)
        for name, kind, ranges in chosen:
            at = len(self.code)
            shapes.append(self._add_field(name, kind, table))
            places.append((at, len(self.code) - at, len(self.ranges), len(ranges)))
            limits = (-(2**63), 2**63 - 1) if is_signed else (0, _HIGHEST)
            self.ranges += [
                (max(lowest, limits[0]), min(highest, limits[1]), is_signed)
                for lowest, highest in ranges
            ]
        self._levels.pop()
        self._optional_levels = inner
        one.first = len(self.options)
        self.options += places
        one.body = len(self.code) - start
        return shapes

    # Lengths and selectors

    def _store(self, source: _Instruction) -> int:
        if source.store == _NONE:
            source.store = self.registers
            self.registers += 1
            if self.registers > _MOST_REGISTERS:
                raise MetadataError("it has too many lengths and selectors")
        return source.store

    def _find(self, place: Place) -> _Instruction:
        """The field that is a length or a selector."""
        for level in self._list_levels(place):
            found: _Instruction | _Level | None = level
            for name in place.names:
                found = found.get(name) if isinstance(found, dict) else None
            if isinstance(found, _Instruction):
                return found
            if found is not None:
                raise MetadataError(f"{_name(place)} is a structure, not a number")
        raise MetadataError(f"there is no field {_name(place)} before the one that needs it")

    def _list_levels(self, place: Place) -> list[_Level]:
        if place.origin is not None:
            if place.origin == self._origin:
                return self._levels[:1]
            return [self._scopes[place.origin]] if place.origin in self._scopes else []
        inside = self._levels[::-1]
        if place.up is not None:
            return inside[place.up : place.up + 1]
        return inside + [self._scopes[origin] for origin in _ORDER if origin in self._scopes]


def _name(place: Place) -> str:
    return repr(".".join((*([place.origin] if place.origin else []), *place.names)))
