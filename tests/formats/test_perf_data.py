"""perf's own file is read through `perf script`, and names no host."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import sightline
from sightline.errors import InputError
from sightline.record.collect.watchers import hide_host

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


def use_perf(folder: Path, patch: pytest.MonkeyPatch, code: int = 0) -> None:
    """A `perf script` that prints one sample."""
    tool = folder / "bin" / "perf"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nprintf '{TEXT}'\nexit {code}\n")
    tool.chmod(0o755)
    patch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")


def list_said(run: sightline.Run) -> list[str]:
    """The kinds of what is said to be missing."""
    return run.table("quality").get_column("kind").to_list()


def test_samples_of_a_killed_recording_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_perf(tmp_path, monkeypatch)
    path = make_data(tmp_path, b"node17")
    data = bytearray(path.read_bytes()[:112])
    data[48:56] = bytes(8)  # a size that was never filled in
    path.write_bytes(data)
    run = sightline.open(str(path))
    assert run.table("cpu_samples").select("pid", "tid", "weight_ns").rows() == [(42, 43, 5000000)]
    assert list_said(run) == []


@pytest.mark.parametrize(("kept", "said"), [(111, True), (150, True), (-1, True), (None, False)])
def test_a_file_that_was_cut_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int | None, said: bool
) -> None:
    """In the samples, in the features' places, in the last feature: perf says nothing of these."""
    use_perf(tmp_path, monkeypatch)
    path = make_data(tmp_path, b"node19")
    path.write_bytes(path.read_bytes().removesuffix(b"more")[:kept])
    assert list_said(sightline.open(str(path))) == ["truncated"] * said


def test_an_error_of_perf_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_perf(tmp_path, monkeypatch, code=234)
    assert list_said(sightline.open(str(make_data(tmp_path, b"node20")))) == ["damaged"]


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
