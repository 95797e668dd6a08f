"""The metadata of CTF 1.8: what the blocks of TSDL say of a trace (CTF 1.8.3, sections 5 to 7)."""

from __future__ import annotations

from dataclasses import replace

from sightline.formats.system.ctf.classes import (
    Array,
    Bytes,
    Clock,
    EventClass,
    Field,
    Integer,
    Metadata,
    MetadataError,
    StreamClass,
    Structure,
    Variant,
)
from sightline.formats.system.ctf.tsdl_grammar import Block, parse_blocks
from sightline.formats.system.ctf.tsdl_words import Word

# What fields mean by their names (CTF 1.8.3, 5.1, 5.2 and 6.1).
_HEADER_ROLES = {
    "magic": "packet-magic-number",
    "uuid": "metadata-stream-uuid",
    "stream_id": "data-stream-class-id",
    "stream_instance_id": "data-stream-id",
}
_CONTEXT_ROLES = {
    "packet_size": "packet-total-length",
    "content_size": "packet-content-length",
    "timestamp_begin": "default-clock-timestamp",
    "timestamp_end": "packet-end-default-clock-timestamp",
    "events_discarded": "discarded-event-record-counter-snapshot",
    "packet_seq_num": "packet-sequence-number",
}
_EVENT_ROLES = {"id": "event-record-class-id", "timestamp": "default-clock-timestamp"}
_IMPLICIT = "default"  # the clock of a trace that declares none


def parse_tsdl(text: str) -> Metadata:
    """What TSDL declares. Raises MetadataError with the line where it is wrong."""
    blocks = parse_blocks(text)
    metadata = Metadata(1)
    _read_trace(metadata, blocks["trace"])
    for block in blocks["env"]:
        metadata.environment = {
            name: word.number() if word.kind == "number" else word.text
            for name, word in block.values.items()
        }
    for block in blocks["clock"]:
        clock = _read_clock(block)
        metadata.clocks[clock.name] = clock
    if not metadata.clocks:
        # Timestamps of no clock are in ns (as babeltrace2 has it).
        metadata.clocks[_IMPLICIT] = Clock(_IMPLICIT)
    only = next(iter(metadata.clocks)) if len(metadata.clocks) == 1 else None
    for block in blocks["stream"]:
        stream = _read_stream(block, only)
        if stream.id in metadata.streams:
            raise MetadataError(f"line {block.line}: there are two streams {stream.id}")
        metadata.streams[stream.id] = stream
    for block in blocks["event"]:
        _add_event(metadata, block)
    return metadata


def _read_trace(metadata: Metadata, blocks: list[Block]) -> None:
    if len(blocks) != 1:
        raise MetadataError("it has no trace block" if not blocks else "it has two trace blocks")
    block = blocks[0]
    version = (block.number("major", -1), block.number("minor", -1))
    if version != (1, 8):
        raise MetadataError(
            f"line {block.line}: the trace is of CTF {version[0]}.{version[1]}, not 1.8"
            if min(version) >= 0
            else f"line {block.line}: the trace block does not say that it is of CTF 1.8"
        )
    order = block.text("byte_order")
    if order not in ("le", "be", "network"):
        raise MetadataError(f"line {block.line}: the trace has no byte_order (le or be)")
    metadata.is_big = order != "le"
    if "uuid" in block.values:
        digits = block.text("uuid").replace("-", "")
        try:
            metadata.uuid = bytes.fromhex(digits)
        except ValueError:
            metadata.uuid = b""
        if len(metadata.uuid) != 16:
            raise MetadataError(f"line {block.line}: the trace's uuid is malformed")
    header = _give_roles(block.structure("packet.header"), _HEADER_ROLES)
    members = tuple(
        (name, Bytes(16, roles=frozenset({"metadata-stream-uuid"})))
        if name == "uuid" and isinstance(kind, Array) and kind.length == 16
        else (name, kind)
        for name, kind in header.members
    )
    metadata.packet_header = replace(header, members=members)


def _read_clock(block: Block) -> Clock:
    name = block.text("name")
    frequency = block.number("freq", 1_000_000_000)
    if not name or frequency == 0:
        raise MetadataError(f"line {block.line}: a clock has no name or no frequency")
    return Clock(
        name,
        frequency,
        _read_signed(block, "offset_s"),
        _read_signed(block, "offset"),
        block.text("absolute", "0").lower() in ("1", "true"),
        block.text("uuid") or None,
    )


def _read_signed(block: Block, name: str) -> int:
    word = block.values.get(name)
    sign = -1 if word is not None and word.text.startswith("-") else 1
    if word is not None and sign < 0:
        return -Word("number", word.text[1:], word.line).number()
    return block.number(name, 0)


def _read_stream(block: Block, only_clock: str | None) -> StreamClass:
    context = _give_roles(block.structure("packet.context"), _CONTEXT_ROLES, only_clock)
    header = _give_roles(block.structure("event.header"), _EVENT_ROLES, only_clock, is_deep=True)
    return StreamClass(
        block.number("id", 0),
        context,
        header,
        block.structure("event.context"),
        # A clock that is declared, but that no field names, is still that of the events.
        _find_clock(header)
        or _find_clock(context)
        or (only_clock if only_clock != _IMPLICIT else None),
    )


def _add_event(metadata: Metadata, block: Block) -> None:
    if "stream_id" in block.values:
        stream = block.number("stream_id", 0)
    else:
        stream = next(iter(metadata.streams), 0)
    if stream not in metadata.streams:
        if metadata.streams:
            raise MetadataError(f"line {block.line}: there is no stream {stream}")
        metadata.streams[stream] = StreamClass(stream)
    event = EventClass(
        block.number("id", 0),
        stream,
        block.text("name"),
        block.structure("context"),
        block.structure("fields"),
    )
    if (stream, event.id) in metadata.events:
        raise MetadataError(f"line {block.line}: there are two events {event.id} of one stream")
    metadata.events[stream, event.id] = event


def _give_roles(
    kind: Structure, roles: dict[str, str], clock: str | None = None, *, is_deep: bool = False
) -> Structure:
    """The structure whose integers know what they mean; timestamps get the only clock."""

    def give(name: str, kind: Field) -> Field:
        if isinstance(kind, Integer) and name in roles:
            role = roles[name]
            is_time = role.endswith("default-clock-timestamp")
            return replace(
                kind,
                roles=kind.roles | {role},
                clock=(kind.clock or clock) if is_time else kind.clock,
            )
        if is_deep and isinstance(kind, Structure):
            return replace(kind, members=tuple((n, give(n, k)) for n, k in kind.members))
        if is_deep and isinstance(kind, Variant):
            options = tuple(replace(o, content=give(o.name, o.content)) for o in kind.options)
            return replace(kind, options=options)
        return kind

    return replace(kind, members=tuple((name, give(name, member)) for name, member in kind.members))


def _find_clock(kind: Field) -> str | None:
    if isinstance(kind, Integer):
        return kind.clock
    inner: tuple[Field, ...] = ()
    if isinstance(kind, Structure):
        inner = tuple(member for _, member in kind.members)
    if isinstance(kind, Variant):
        inner = tuple(option.content for option in kind.options)
    return next((clock for one in inner if (clock := _find_clock(one)) is not None), None)
