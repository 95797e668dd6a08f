"""Chakra execution traces, read again with a decoder of the wire format written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.views.exports import chakra
from support.jobs import collective
from support.traces import kernel, opened, opened_ranks


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def read_fields(data: bytes) -> list[tuple[int, Any]]:
    """Number and value of each field; only varints and lengths are in these files."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        fields.append((key >> 3, value))
    return fields


def read_nodes(path: Path) -> list[dict[str, Any]]:
    data, at, messages = path.read_bytes(), 0, []
    while at < len(data):
        length, at = read_varint(data, at)
        messages.append(read_fields(data[at : at + length]))
        at += length
    assert messages[0] == [(1, b"0.0.4")]
    nodes = []
    for message in messages[1:]:
        plain = dict(message)
        waits, packed = [], plain.get(5, b"")
        at = 0
        while at < len(packed):
            number, at = read_varint(packed, at)
            waits.append(number)
        attributes = {}
        for field, value in message:
            if field == 10:
                (_, name), (_, told) = read_fields(value)
                attributes[name.decode()] = told
        nodes.append(
            {
                "id": plain.get(1, 0),
                "name": plain[2].decode(),
                "type": plain[3],
                "waits": waits,
                "start": plain.get(6, 0),
                "length": plain.get(7, 0),
                **attributes,
            }
        )
    return nodes


def test_operations_gaps_and_collectives(tmp_path: Path) -> None:
    events = [kernel("gemm", 10, 30), collective(50, 20, members=(0, 1))]
    paths = chakra.write(opened_ranks(tmp_path, events, events), tmp_path / "job.et")
    assert [path.name for path in paths] == ["job.0.et", "job.1.et"]
    gemm, host, reduced = read_nodes(paths[1])
    assert (gemm["type"], gemm["length"], gemm["waits"]) == (4, 30, [])
    assert (host["name"], host["length"], host["waits"]) == ("host", 10, [gemm["id"]])
    assert (host["is_cpu_op"], gemm["is_cpu_op"]) == (1, 0)
    assert (reduced["type"], reduced["length"], reduced["waits"]) == (7, 20, [host["id"]])
    told = {k: reduced[k] for k in ("comm_type", "comm_size", "pg_name")}
    assert told == {"comm_type": 0, "comm_size": 4_000_000, "pg_name": b"0"}


def test_a_replay_takes_as_long_as_the_recording(tmp_path: Path) -> None:
    events = [
        kernel("a", 0, 100, stream=7),
        kernel("b", 20, 30, stream=8),
        kernel("c", 130, 25, stream=7),
        kernel("d", 160, 5, stream=8),
    ]
    (path,) = chakra.write(opened(tmp_path, events), tmp_path / "run.et")
    ends: dict[int, int] = {}
    for node in read_nodes(path):
        start = max((ends[n] for n in node["waits"]), default=0)
        assert start == node["start"]
        ends[node["id"]] = start + node["length"]
    assert max(ends.values()) == 165
