"""What a CTF trace's metadata declares: classes of fields, events and streams, and clocks.

CTF 1.8 and CTF 2 say the same in different words (https://diamon.org/ctf/v1.8.3/,
https://diamon.org/ctf/): both are read into these, in the terms of CTF 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Origin = Literal[
    "packet-header",
    "packet-context",
    "event-record-header",
    "event-record-common-context",
    "event-record-specific-context",
    "event-record-payload",
]


class MetadataError(Exception):
    """What is wrong with metadata, and in which line or fragment."""


@dataclass(frozen=True)
class Label:
    """A name for the values from `lowest` to `highest`, both included."""

    name: str
    lowest: int
    highest: int


@dataclass(frozen=True)
class Place:
    """Where a length or a selector is read: a field that comes before.

    Without an origin, the names are looked up from the innermost structure outwards, as in CTF 1.8;
    `up` says instead how many structures to leave first.
    """

    names: tuple[str, ...]
    origin: Origin | None = None
    up: int | None = None


@dataclass(frozen=True)
class Integer:
    """An integer of `size` bits. `is_big` is None where the trace's byte order is meant."""

    size: int
    alignment: int
    is_signed: bool = False
    is_big: bool | None = None
    is_reversed: bool = False
    base: int = 10
    labels: tuple[Label, ...] = ()
    is_enumeration: bool = False
    is_boolean: bool = False
    is_character: bool = False  # an array of them is a text
    clock: str | None = None  # the clock whose time it is
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class VariableInteger:
    """An integer of 7 bits a byte."""

    is_signed: bool = False
    base: int = 10
    labels: tuple[Label, ...] = ()
    is_enumeration: bool = False
    clock: str | None = None
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Real:
    """A binary floating-point number of IEEE 754, of 16, 32 or 64 bits."""

    size: int
    alignment: int
    is_big: bool | None = None
    is_reversed: bool = False


@dataclass(frozen=True)
class String:
    """A text up to its NUL."""


@dataclass(frozen=True)
class Bytes:
    """So many bytes: a text, which ends at its first NUL, or a blob."""

    length: int | Place
    is_text: bool = False
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Structure:
    """Fields one behind another, by name."""

    members: tuple[tuple[str, Field], ...] = ()
    alignment: int = 1
    weight: int = field(init=False, compare=False, default=1)

    def __post_init__(self) -> None:
        _weigh(self, *(member for _, member in self.members))


@dataclass(frozen=True)
class Array:
    """`length` elements of one class."""

    element: Field
    length: int | Place
    alignment: int = 1
    weight: int = field(init=False, compare=False, default=1)

    def __post_init__(self) -> None:
        _weigh(self, self.element)


@dataclass(frozen=True)
class Option:
    """A field that is there where the selector is in a range; without ranges, by its label."""

    name: str
    content: Field
    ranges: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Variant:
    """One of several fields. Of CTF 1.8, the selector's labels are the options' names."""

    selector: Place | None
    options: tuple[Option, ...]
    weight: int = field(init=False, compare=False, default=1)

    def __post_init__(self) -> None:
        _weigh(self, *(option.content for option in self.options))


@dataclass(frozen=True)
class Optional:
    """A field that is there where the selector is true, or in a range."""

    selector: Place
    content: Field
    ranges: tuple[tuple[int, int], ...] | None = None
    weight: int = field(init=False, compare=False, default=1)

    def __post_init__(self) -> None:
        _weigh(self, self.content)


Field = Integer | VariableInteger | Real | String | Bytes | Structure | Array | Variant | Optional
# The fields of one event. Real ones have up to a few hundred; types of types can double at each
# level, so that a short text declares more than any memory holds.
_MOST_FIELDS = 1 << 16


def _weigh(kind: Structure | Array | Variant | Optional, *inner: Field) -> None:
    weight = 1 + sum(getattr(one, "weight", 1) for one in inner)
    if weight > _MOST_FIELDS:
        raise MetadataError(f"a field has more than {_MOST_FIELDS} parts")
    object.__setattr__(kind, "weight", weight)


NOTHING = Structure()


@dataclass(frozen=True)
class Clock:
    """A clock that counts at `frequency` Hz from `offset_s` and `offset_cycles` on."""

    name: str
    frequency: int = 1_000_000_000
    offset_s: int = 0
    offset_cycles: int = 0
    is_unix: bool = True
    uuid: str | None = None


@dataclass(frozen=True)
class EventClass:
    """A kind of event: its name and what it says."""

    id: int
    stream_class: int
    name: str
    context: Structure = NOTHING
    payload: Structure = NOTHING


@dataclass(frozen=True)
class StreamClass:
    """A kind of stream: what each of its packets and events begins with."""

    id: int
    packet_context: Structure = NOTHING
    event_header: Structure = NOTHING
    event_context: Structure = NOTHING
    clock: str | None = None


@dataclass
class Metadata:
    """All that a trace's metadata declares."""

    version: int
    is_big: bool = False
    uuid: bytes | None = None
    packet_header: Structure = NOTHING
    environment: Mapping[str, int | str] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)
    streams: dict[int, StreamClass] = field(default_factory=dict)
    events: dict[tuple[int, int], EventClass] = field(default_factory=dict)


def find_alignment(kind: Field) -> int:
    """The bit that a field of this class begins at is a multiple of this."""
    if isinstance(kind, (Integer, Real)):
        return kind.alignment
    if isinstance(kind, (VariableInteger, String, Bytes)):
        return 8
    if isinstance(kind, Structure):
        return max([kind.alignment, *(find_alignment(member) for _, member in kind.members)])
    if isinstance(kind, Array):
        return max(kind.alignment, find_alignment(kind.element))
    return 1
