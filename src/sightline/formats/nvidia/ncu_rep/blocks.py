"""A report's layout: magic, file header, and blocks of messages, each read within its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sightline.core.protobuf import DamagedMessageError, as_dict, parse_message
from sightline.formats.nvidia.ncu_rep.schema import MESSAGES, RESULT_KINDS

MAGIC = b"NVR\0"


@dataclass
class Report:
    """A report's headers, strings, and where its messages lie in `data`."""

    data: bytes
    version: int | None = None
    headers: list[dict[str, Any]] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    messages: list[tuple[str, int, int]] = field(default_factory=list)  # what, start, end
    damage: list[str] = field(default_factory=list)
    read_to: int = 0  # the byte up to which blocks are whole

    def of(self, *kinds: str) -> Iterator[tuple[str, int, int]]:
        """The messages of these kinds, in file order."""
        return (m for m in self.messages if m[0] in kinds)

    def sessions(self) -> Iterator[dict[str, Any]]:
        """Details of the session, from the blocks that carry some."""
        return (h["SessionDetails"] for h in self.headers if "SessionDetails" in h)


def read_fields(message: str, data: bytes) -> dict[str, Any]:
    """The declared fields of a message. Raises DamagedMessageError."""
    return as_dict(parse_message(MESSAGES[message], data))


def read_layout(data: bytes) -> Report:
    """Find every block and message; what is cut off or out of bounds ends the reading."""
    report = Report(data)
    size = len(data)
    pos = len(MAGIC)
    start, pos, whole = _sized(data, pos, size)
    if not whole:
        report.damage.append("it ends inside the file header")
        return report
    try:
        report.version = read_fields("FileHeader", data[start:pos]).get("Version")
    except DamagedMessageError as error:
        report.damage.append(f"the file header is damaged: {error}")
    report.read_to = pos
    while pos < size:
        start, stop, whole = _sized(data, pos, size)
        if not whole:
            report.damage.append(f"it ends inside a block header at byte {pos:,} of {size:,}")
            break
        try:
            header = read_fields("BlockHeader", data[start:stop])
        except DamagedMessageError as error:
            report.damage.append(f"the block header at byte {pos:,} is damaged: {error}")
            break
        report.headers.append(header)
        report.strings += header.get("StringTable", {}).get("Strings", [])
        end = stop + header.get("PayloadSize", 0)
        if not _payload(report, header, stop, min(end, size)) or end > size:
            if end > size:
                report.damage.append(
                    f"the block at byte {pos:,} should end at byte {end:,}, the file at {size:,}"
                )
                break
            report.damage.append(f"the block at byte {pos:,} holds fewer messages than it says")
        pos = report.read_to = end
    return report


def _payload(report: Report, header: dict[str, Any], pos: int, end: int) -> bool:
    """Note the messages of a payload; whether they fill it exactly."""
    plan = [("Source", header.get("NumSources", 0))]
    plan += [(message, header.get(count, 0)) for count, message, _ in RESULT_KINDS]
    for what, count in plan:
        for _ in range(count):  # ends at the payload's end, however large the count
            start, stop, whole = _sized(report.data, pos, end)
            if not whole:
                return False
            report.messages.append((what, start, stop))
            pos = stop
    return pos == end


def _sized(data: bytes, pos: int, end: int) -> tuple[int, int, bool]:
    """Bounds of the bytes after a u32 length, and whether they are all there."""
    if end - pos < 4:
        return pos, end, False
    length = int.from_bytes(data[pos : pos + 4], "little")
    start = pos + 4
    return start, min(start + length, end), length <= end - start
