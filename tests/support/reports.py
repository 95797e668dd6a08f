"""Nsight Systems reports (.nsys-rep), written event by event as docs/formats/nsys-rep.md has them.

    report = Report()
    report.kernel("saxpy", start=10, end=20, correlation=1)
    report.write(tmp_path / "run.nsys-rep")

It shares nothing with the reader: fields are numbers here, and messages are encoded by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lz4.block

MAGIC = b"NVIDIA Tegra Profiler Report "
DATA = b"QDTEXT00"
END = b"\x55\x33\x77\x5b\x45\x4e\x44\x5d"
PID, TID = 1234, 1234
MACHINE = 1 << 48
PROCESS = MACHINE | PID << 24
THREAD = PROCESS | TID
RUNTIME, DRIVER, OSRT, OVERHEAD, CUPTI_OVERHEAD = 0, 1, 27, 3, 103


def varint(value: int) -> bytes:
    """A number; a negative one has ten bytes."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(fields: dict[int, Any]) -> bytes:
    """A message: whole numbers, floats (as doubles), texts, bytes, messages, or lists of these."""
    out = b""
    for number, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, float):
                out += varint(number << 3 | 1) + struct.pack("<d", one)
            elif isinstance(one, int):
                out += varint(number << 3) + varint(one)
            elif one is not None:
                data = message(one) if isinstance(one, dict) else one
                out += varint(number << 3 | 2) + delimited(
                    data.encode() if isinstance(data, str) else data
                )
    return out


def delimited(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return varint(len(data)) + data


def pack(data: bytes, size: int | None = None) -> bytes:
    """A block; `size` is what it claims to unpack to."""
    packed = lz4.block.compress(data, store_size=False)
    return varint(len(packed)) + varint(len(data) if size is None else size) + packed


@dataclass
class Report:
    """What a report will hold. Times are ns from the start of the session."""

    version: str = "2025.1.1.110-251135451612v0"
    events: list[bytes] = field(default_factory=list)
    strings: dict[bytes, int] = field(default_factory=dict)
    streams: list[dict[int, Any]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    host: str = "secret-host"
    thread_names: list[dict[int, Any]] = field(default_factory=list)
    hardware: dict[int, Any] = field(
        default_factory=lambda: {1: [{1: MACHINE, 2: {7: [{1: 0, 2: "NVIDIA H200", 14: 132}]}}]}
    )
    payload_schemas: dict[int, Any] = field(default_factory=dict)
    per_block: int = 7000
    declared: int | None = None  # how many events the report says that it has
    codec: str = "lz4"
    span: tuple[int, int] = (500, 500 + 10**9)  # start and stop, on the recording's own clock

    def text(self, value: str | bytes) -> int:
        """A string's number."""
        data = value.encode() if isinstance(value, str) else value
        return self.strings.setdefault(data, len(self.strings))

    def event(self, kind: int, payload: int, fields: dict[int, Any]) -> None:
        """Any event."""
        self.events.append(message({1: kind, payload: fields}))

    def kernel(self, name: str, *, start: int, end: int, correlation: int, **other: Any) -> None:
        """A kernel of 2 x 1 x 1 blocks of 64 threads."""
        shape = {1: self.text(name), 2: self.text(name), 10: 2, 11: 1, 12: 1, 13: 64, 14: 1, 15: 1}
        self._device(79, start, end, correlation, {101: shape | other.pop("kernel", {})}, **other)

    def copy(self, kind: int, *, start: int, end: int, correlation: int, size: int) -> None:
        """A copy."""
        self._device(80, start, end, correlation, {102: {1: size, 2: kind, 4: 0, 5: 2}})

    def _device(
        self, kind: int, start: int, end: int, correlation: int, what: dict[int, Any], **other: Any
    ) -> None:
        fields = {1: start, 2: end, 3: correlation, 4: other.get("device", 0), 5: 1, 6: 7}
        self.event(kind, 107, fields | {8: other.get("process", PROCESS)} | what)

    def call(
        self,
        name: str,
        *,
        start: int,
        end: int,
        correlation: int = 0,
        kind: int = RUNTIME,
        thread: int = THREAD,
        frames: Iterable[tuple[str, str]] = (),
    ) -> None:
        """A call of the host; frames are functions and modules, the innermost first."""
        chain = [{1: self.text(f), 2: self.text(m), 8: 4096 + i} for i, (f, m) in enumerate(frames)]
        fields = {1: start, 2: end, 3: correlation, 6: kind, 7: self.text(name), 8: 0, 13: thread}
        self.event(48, 108, fields | {15: chain})

    def range(
        self, text: str | bytes, *, start: int, end: int | None, thread: int = THREAD, **other: Any
    ) -> None:
        """A push/pop range; `fields` are those of the message by number."""
        fields = {1: 59, 2: start, 7: text, 9: thread, 10: end, 13: 0}
        self.event(59, 102, fields | other.get("fields", {}))

    def write(self, path: Path) -> Path:
        """Write the report."""
        path.write_bytes(self.content())
        return path

    def content(self) -> bytes:
        """The report's bytes."""
        starts = range(0, len(self.events), self.per_block)
        return self.assemble(
            [pack(delimited(message({1: self.events[at : at + self.per_block]}))) for at in starts]
        )

    def assemble(self, blocks: list[bytes], strings: bytes | None = None) -> bytes:
        """The report's bytes with these blocks of events, and this one of strings."""
        session = {
            1: [{1: "Local (CLI)", 3: MACHINE}],
            2: {
                9: self.host,
                26: [{10: "app", 30: [{1: k, 2: v} for k, v in self.environment.items()]}],
            },
            # Session 7 to recording 1 to system 3 to UTC 9.
            16: {
                1: [
                    {1: 1, 2: 3, 5: "-1000", 6: "Offset"},
                    {1: 3, 2: 9, 5: "-1700000000000000000", 6: "Offset"},
                ]
            },
            17: self.span[0],
            18: self.span[1],
        }
        counts = {
            1: len(self.events) if self.declared is None else self.declared,
            3: len(self.strings),
            5: len(self.thread_names),
            9: self.codec,
        }
        head = DATA + delimited(message(session)) + delimited(message(counts))
        body = head + b"".join(blocks)
        at_strings = len(body) - len(DATA)
        if strings is None:
            strings = pack(delimited(message({1: list(self.strings), 2: self.streams})))
        body += strings + delimited(message({1: self.thread_names}))
        body += delimited(message(self.hardware))
        positions: dict[int, Any] = {1: self.codec, 2: at_strings}
        if self.payload_schemas:
            positions[3] = len(body) - len(DATA)
            body += pack(delimited(message(self.payload_schemas)))
        sections = [
            ("Raw Sampling Data", body),
            ("Sampling Data Offsets", message(positions)),
            ("UI Data", message({5: self.host, 6: self.version, 7: self.version})),
        ]
        content = MAGIC + b"1."
        table = []
        for name, data in sections:
            table.append({1: name, 2: len(content), 3: len(data)})
            content += data
        offset = len(content)
        return content + message({1: table}) + struct.pack("<Q", offset) + END
