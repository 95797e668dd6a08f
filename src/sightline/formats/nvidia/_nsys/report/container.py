"""Where what lies in a report: its sections, and the parts of the one that holds the events.

A report is protobuf messages, some of them in LZ4 blocks; at its end is a table of its sections. A
report that was cut off has no table, but what was written before the cut can be found without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline._native import unpack_block
from sightline.core.protobuf import DamagedMessageError, parse_message
from sightline.errors import DamagedError
from sightline.formats.nvidia._nsys.report.messages import MESSAGES

MAGIC = b"NVIDIA Tegra Profiler Report "
_END = b"\x55\x33\x77\x5b\x45\x4e\x44\x5d"
_DATA = b"QDTEXT00"  # before the session message
_EVENTS, _POSITIONS = "Raw Sampling Data", "Sampling Data Offsets"
_VERSION = re.compile(rb"(\d+)@(\d+)@(\d+)@(\d+)")
# The section of the events begins after about 10 kB of options: with a whole environment in them
# and a margin.
_HEAD_BYTES = 64 << 20
# Messages that are read at once: the session's own is a few 100 kB (a command line and environments
# are most of it).
_LONGEST = 256 << 20


@dataclass(frozen=True)
class Container:
    """A report's parts. Places are bytes from the file's start."""

    path: Path
    session: Any
    counts: Any
    events: tuple[int, int]  # from the first block to the end of the last
    strings: int | None  # the block of the string table; None where nothing says
    payload_schemas: int | None
    end: int  # of the section with all of these
    sections: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_cut: bool = False

    def read_section(self, name: str) -> bytes:
        """A section's bytes; none where there is no such section."""
        start, end = self.sections.get(name, (0, 0))
        return read_bytes(self.path, start, end)


def open_container(path: Path, given: str) -> Container:
    """Find a report's parts. Raises DamagedError where its events cannot be found."""
    size = path.stat().st_size
    sections = _read_sections(path, size)
    start, end = sections.get(_EVENTS, (0, size))
    strings = schemas = None
    codec = "lz4"
    try:
        if _EVENTS in sections:
            positions = parse_message(
                MESSAGES["Positions"], read_bytes(path, *sections.get(_POSITIONS, (0, 0)))
            )
            codec = positions.codec or codec
            base = start + len(_DATA)
            strings = base + positions.strings if positions.strings else None
            schemas = base + positions.payload_schemas if positions.payload_schemas else None
        else:
            start = max(read_bytes(path, 0, min(size, _HEAD_BYTES)).find(_DATA), 0)
        at = start
        if read_bytes(path, at, at + len(_DATA)) != _DATA:
            raise DamagedMessageError("the part with the events is missing")
        session, at = read_delimited(path, at + len(_DATA), end, "Session")
        counts, at = read_delimited(path, at, end, "Counts")
    except DamagedMessageError as error:
        raise DamagedError(
            f"cannot read {given}",
            why=f"the report is damaged or cut off before its first event ({error})",
        ) from error
    if (counts.codec or codec) != "lz4":
        raise DamagedError(
            f"cannot read {given}",
            why=f"its events are packed with {counts.codec or codec}, which is not known",
            hint="Export it where it was recorded:  nsys export --type sqlite REPORT.nsys-rep",
        )
    is_whole = strings is not None and at <= strings < end
    return Container(
        path,
        session,
        counts,
        (at, strings if is_whole and strings else end),
        strings if is_whole else None,
        schemas if schemas and at < schemas < end else None,
        end,
        sections,
        is_cut=not is_whole,
    )


def is_report(path: Path) -> bool:
    """Whether a file begins like a report."""
    return read_bytes(path, 0, len(MAGIC)) == MAGIC


def read_bytes(path: Path, start: int, end: int) -> bytes:
    """Part of a file, as far as it goes; none where it ends before it starts."""
    if start >= end:
        return b""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(min(end - start, _LONGEST))


def read_delimited(path: Path, start: int, end: int, kind: str) -> tuple[Any, int]:
    """A message with its length before it, and where it ends. Raises DamagedMessageError."""
    head = read_bytes(path, start, min(start + 10, end))
    length = shift = used = 0
    for byte in head:
        length |= (byte & 0x7F) << shift
        shift += 7
        used += 1
        if byte < 0x80:
            break
    else:
        raise DamagedMessageError("it ends before a message")
    begin = start + used
    if begin + length > end:
        raise DamagedMessageError("it ends inside a message")
    return parse_message(MESSAGES[kind], read_bytes(path, begin, begin + length)), begin + length


def read_block(path: Path, start: int, end: int, kind: str) -> tuple[Any, int] | None:
    """The message in an LZ4 block, and where the block ends; None where there is no whole one."""
    found = unpack_block(path, start, end)
    if found is None:
        return None
    block, stop = found
    try:
        skipped = next(i for i, byte in enumerate(block[:10], 1) if byte < 0x80)
        return parse_message(MESSAGES[kind], block[skipped:]), stop
    except (StopIteration, DamagedMessageError):
        return None


def _read_sections(path: Path, size: int) -> dict[str, tuple[int, int]]:
    """Start and end of each section; none where the table of sections is missing."""
    end = read_bytes(path, size - 16, size) if size > 16 else b""
    if end[8:] != _END:
        return {}
    offset = int.from_bytes(end[:8], "little")
    try:
        table = parse_message(MESSAGES["Sections"], read_bytes(path, offset, size - 16))
    except DamagedMessageError:
        return {}
    return {
        str(s.name): (s.offset, s.offset + s.size)
        for s in table.sections
        if s.offset + s.size <= offset
    }


def read_version(container: Container) -> str | None:
    """The version of the tool that wrote the report, such as 2024.6.2.25."""
    try:
        about = parse_message(MESSAGES["About"], container.read_section("UI Data"))
        text = str(about.version or about.product)
    except DamagedMessageError:
        text = ""
    head = _VERSION.match(read_bytes(container.path, len(MAGIC), len(MAGIC) + 64))
    if not text and head:  # from 2023.3 on the file's first words have it, too
        text = b".".join(head.groups()).decode()
    return text.partition("-")[0] or None
