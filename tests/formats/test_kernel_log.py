"""Kernel logs with XIDs, in the four ways in which their lines are dated."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError, UnknownFormatError

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "time_ns"),
    [
        (f"[  123.456789] {XID}", 123_456_789_000),
        (f"<4>[  123.456789] {XID}", 123_456_789_000),
        (f"2026-03-01T10:00:00,250000+01:00 node kernel: {XID}", 1_772_355_600_250_000_000),
        (f"[Sun Mar  1 09:00:00 2026] {XID}", 1_772_355_600_000_000_000),
        (f"Mar  1 09:00:00 node kernel: {XID}", (59 * 86_400 + 9 * 3600) * 10**9),
    ],
)
def test_an_xid_in_every_kind_of_log(tmp_path: Path, line: str, time_ns: int) -> None:
    path = tmp_path / "kern.log"
    second = line.replace("3b:00", "86:00").replace("79,", "119,")
    path.write_text(f"[    0.000000] Linux version 6.1\n{line}\n{second}\n")
    events = sightline.open(str(path)).table("device_events")
    assert events.select("event", "device_id", "time_ns").rows() == [
        ("xid", 0, time_ns),
        ("xid", 1, time_ns),
    ]
    assert [text.split(":")[0] for text in events.get_column("text")] == ["XID 79", "XID 119"]


@pytest.mark.parametrize("content", ["[hello world\n", "{hello}\n", "[    0.000] Linux version\n"])
def test_a_bracket_makes_no_trace(tmp_path: Path, content: str) -> None:
    path = tmp_path / "some.txt"
    path.write_text(content)
    with pytest.raises(UnknownFormatError):
        sightline.open(str(path))


@pytest.mark.parametrize(
    "binary",
    [
        b"SQLite format 3\x00" + bytes(range(256)),
        b"\x1f\x8b\x08\x00" + bytes(range(128, 256)) * 3,
        b"\x0a\x90\x01\x12\x0d/device:TPU:0" + bytes(range(0, 256, 3)),
    ],
)
def test_a_binary_file_that_was_saved_as_text(tmp_path: Path, binary: bytes) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(binary.decode("utf-8", "replace").encode())
    with pytest.raises(DamagedError) as error:
        sightline.open(str(path))
    assert "saved as text" in (error.value.why or "")
