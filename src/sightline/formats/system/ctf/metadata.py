"""A trace's file `metadata`: TSDL as text or in packets, or the JSON text sequence of CTF 2."""

from __future__ import annotations

import struct
from pathlib import Path

from sightline.formats.system.ctf.classes import Metadata, MetadataError
from sightline.formats.system.ctf.fragments import parse_fragments
from sightline.formats.system.ctf.tsdl import parse_tsdl

# Metadata of real traces has up to 2 MB (a kernel with all events); a parser holds many times that.
_MOST_BYTES = 64 << 20
# Of a packet of metadata: magic, UUID, checksum, content_size and packet_size in bits, three
# schemes, and the version (CTF 1.8.3, 7.1).
_PACKET = "I16sIIIBBBBB"
_PACKET_MAGIC = 0x75D11D57
_PACKET_BYTES = struct.calcsize("<" + _PACKET)


def read_metadata(path: Path) -> Metadata:
    """What the file declares. Raises MetadataError, or OSError."""
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise MetadataError(f"it has more than {_MOST_BYTES >> 20} MiB")
    for order in "<>":
        if data[:4] == struct.pack(order + "I", _PACKET_MAGIC):
            data = _unpack(data, order)
            break
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if text.lstrip("\x1e \t\n").startswith("{"):
        return parse_fragments(text)
    return parse_tsdl(text.rstrip("\0"))


def _unpack(data: bytes, order: str) -> bytes:
    """The text in packets. One that is cut at its end is left out, as a crash leaves it."""
    texts, at = [], 0
    while at + _PACKET_BYTES <= len(data):
        head = struct.unpack_from(order + _PACKET, data, at)
        magic, content_bits, packet_bits, major, minor = head[0], *head[3:5], *head[8:10]
        if magic != _PACKET_MAGIC:
            raise MetadataError(f"at byte {at}, no packet of metadata begins")
        if (major, minor) not in ((1, 8), (2, 0)):
            raise MetadataError(f"the packet at byte {at} is of CTF {major}.{minor}, not 1.8")
        if any(head[5:8]):
            raise MetadataError(f"the packet at byte {at} is compressed or encrypted")
        content, whole = content_bits // 8, packet_bits // 8
        if not _PACKET_BYTES <= content <= whole:
            raise MetadataError(f"the packet at byte {at} has no size that makes sense")
        if at + content > len(data):
            break
        texts.append(data[at + _PACKET_BYTES : at + content])
        at += whole
    return b"".join(texts)
