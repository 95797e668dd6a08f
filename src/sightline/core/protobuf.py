"""Protobuf messages without protoc: classes from declared fields, on Google's `protobuf`.

Several recordings and exports are protobuf. Each format declares the fields that it uses, by
number, and gets message classes for them; fields that are not declared, as those of newer tools,
are skipped. Parsing and writing is the library's, which is compiled; what is added here is that
declaration, what damage becomes, and reading a long stream of messages piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

# Widths need no names of their own: on the wire a uint32 is a uint64. An enum is read as `uint`,
# so that a value that a newer tool added is still a number.
_KINDS = {
    "uint": FieldDescriptor.TYPE_UINT64,
    "int": FieldDescriptor.TYPE_INT64,
    "sint": FieldDescriptor.TYPE_SINT64,
    "bool": FieldDescriptor.TYPE_BOOL,
    "float": FieldDescriptor.TYPE_FLOAT,
    "double": FieldDescriptor.TYPE_DOUBLE,
    "fixed32": FieldDescriptor.TYPE_FIXED32,
    "fixed64": FieldDescriptor.TYPE_FIXED64,
    "text": FieldDescriptor.TYPE_STRING,
    "bytes": FieldDescriptor.TYPE_BYTES,
}
_REPEATED, _PACKED = "[]", "[packed]"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CHUNK_BYTES = 1 << 20
# The library parses no longer message; a length beyond it is damage.
_LONGEST = (1 << 31) - 1


class DamagedMessageError(ValueError):
    """The bytes are not the message that they should be."""


def declare_messages(text: str) -> dict[str, Callable[..., Any]]:
    """Message classes, by name, from lines such as 'Track: 1 uuid uint, 4 events []Event'.

    A field is its number, name and kind: a scalar (uint, int, sint, bool, float, double, fixed32,
    fixed64, text, bytes) or a message of the same declaration; `[]` before it means repeated, and
    `[packed]` repeated and written packed (both are read either way). An indented line continues
    the one before it.
    """
    file = descriptor_pb2.FileDescriptorProto(name="declared.proto", syntax="proto2")
    for line in text.strip().replace("\n    ", " ").splitlines():
        name, _, rest = line.partition(":")
        message = file.message_type.add(name=name.strip())
        for item in filter(str.strip, rest.split(",")):
            number, field, kind = item.split()
            plain = kind.removeprefix(_PACKED).removeprefix(_REPEATED)
            repeated = plain != kind
            added = message.field.add(
                name=field,
                number=int(number),
                label=FieldDescriptor.LABEL_REPEATED
                if repeated
                else FieldDescriptor.LABEL_OPTIONAL,
                type=_KINDS.get(plain, FieldDescriptor.TYPE_MESSAGE),
            )
            if plain not in _KINDS:
                added.type_name = f".{plain}"
            if kind.startswith(_PACKED):
                added.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        m.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(m.name))
        for m in file.message_type
    }


def parse_message(kind: Any, data: bytes | memoryview) -> Any:
    """The message of a declared kind that the bytes hold. Raises DamagedMessageError."""
    try:
        return kind.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise DamagedMessageError(f"its bytes are not a {kind.DESCRIPTOR.name} message") from error


def decode_text(value: str | bytes) -> str:
    """A text field's value; the library gives bytes where it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def as_dict(message: Message) -> dict[str, Any]:
    """The fields that a message has, messages inside it as dicts too. For small ones."""
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, bytes):
        return decode_text(value) if field.type == FieldDescriptor.TYPE_STRING else value
    if isinstance(value, Message):
        return as_dict(value)
    return [_plain(field, v) for v in value]


class _Field(NamedTuple):
    number: int
    wire: int
    start: int  # of its value
    end: int


def read_messages(
    stream: BinaryIO, number: int, *, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[memoryview]:
    """The bytes of each value of one length-delimited field, as they come in a long message.

    For formats that are one repeated field, such as a trace of packets: only one chunk or one
    value is in memory. Raises DamagedMessageError where the stream is not a message or ends inside
    a field.
    """
    rest = b""
    wanted = chunk_bytes
    while chunk := stream.read(wanted):
        data = rest + chunk
        view = memoryview(data)
        at = 0
        wanted = chunk_bytes
        while at < len(data):
            field = _next_field(data, at)
            if field is None:
                break
            if field.end > len(data):
                # Twice as much each time: a long value is not copied once a chunk, and a length
                # that lies costs no more memory than the stream has.
                wanted = max(chunk_bytes, min(field.end - len(data), len(data)))
                break
            if field.number == number and field.wire == _BYTES:
                yield view[field.start : field.end]
            at = field.end
        rest = data[at:]
    if rest:
        raise DamagedMessageError("it ends inside a field")


def _next_field(data: bytes, at: int) -> _Field | None:
    """The field that begins here; None where its head goes beyond the data."""
    key = _varint(data, at)
    if key is None:
        return None
    number, wire = key[0] >> 3, key[0] & 7
    if number == 0:
        raise DamagedMessageError("a field has number 0")
    start = key[1]
    if wire == _VARINT:
        value = _varint(data, start)
        return None if value is None else _Field(number, wire, start, value[1])
    if wire == _BYTES:
        length = _varint(data, start)
        if length is None:
            return None
        if length[0] > _LONGEST:
            raise DamagedMessageError("a field is longer than a message can be")
        return _Field(number, wire, length[1], length[1] + length[0])
    if wire in (_FIXED64, _FIXED32):
        return _Field(number, wire, start, start + (8 if wire == _FIXED64 else 4))
    raise DamagedMessageError(f"a field has wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """An unsigned number and where it ends; None where that is beyond the data."""
    result = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise DamagedMessageError("a number is longer than ten bytes")
