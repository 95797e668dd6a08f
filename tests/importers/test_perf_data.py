"""perf's own file is read through `perf script`, and names no host."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import sightline
from sightline.collect.watchers import hide_host
from sightline.errors import InputError

TEXT = "python 42/43 12.500000000: 5000000 cpu-clock:\\n\\t    55d0 main (/usr/bin/x)\\n\\n"


def make_data(folder: Path, host: bytes) -> Path:
    """A header, eight bytes of samples, and the features 2 and 3 (host), as perf writes them."""
    path = folder / "host.perf.data"
    bits = (1 << 2 | 1 << 3).to_bytes(32, "little")
    head = b"PERFILE2" + struct.pack("<QQ", 104, 0) + struct.pack("<QQ", 0, 0)
    head += struct.pack("<QQ", 104, 8) + struct.pack("<QQ", 0, 0) + bits
    table = 112 + 32
    text = struct.pack("<I", len(host)) + host
    features = struct.pack("<QQ", table, 4) + struct.pack("<QQ", table + 4, len(text))
    path.write_bytes(head + b"SAMPLES!" + features + b"abcd" + text + b"more")
    return path


def test_samples_of_a_killed_recording_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "perf"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nprintf '{TEXT}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    run = sightline.open(str(make_data(tmp_path, b"node17")))
    assert run.table("cpu_samples").select("pid", "tid", "weight_ns").rows() == [(42, 43, 5000000)]


def test_without_perf_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="perf script"):
        sightline.open(str(make_data(tmp_path, b"node18")))


def test_host_is_taken_out_of_what_perf_leaves(tmp_path: Path) -> None:
    path = make_data(tmp_path, b"node17.example.org")
    size = path.stat().st_size
    hide_host(path)
    data = path.read_bytes()
    assert b"node17" not in data
    assert data.endswith(b"more")
    assert b"SAMPLES!" in data
    assert len(data) == size
