"""Proton's timelines: a document for each stream, and damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline
from sightline.errors import DamagedError
from sightline.importers import proton_trace
from sightline.model.declare import Imported, ImportOptions
from sightline.model.source import Source
from support.campaigns import sample


def kernel(name: str, ts: Any, dur: Any, stream: Any) -> dict[str, Any]:
    args = {"call_stack": ["ROOT", "forward", name]}
    return {"args": args, "cat": "kernel", "dur": dur, "name": name, "ph": "X", "tid": stream,
            "ts": ts}  # fmt: skip


def line(*kernels: dict[str, Any]) -> str:
    document = {"displayTimeUnit": "us", "traceEvents": list(kernels)}
    return json.dumps(document, separators=(",", ":"))


TRACE = "\n".join(
    [line(kernel("gemm", 0.5, 5.001, 7), kernel("add", 9.0, 1.0, 7)), line(kernel("copy", 2, 3, 9))]
)


def read(folder: Path, data: str | bytes) -> Imported:
    path = folder / "x"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    imported: Imported = proton_trace.read(Source(path, "x"), ImportOptions())
    return imported


def test_all_streams_are_read(tmp_path: Path) -> None:
    (tmp_path / "proton.chrome_trace").write_text(TRACE)
    run = sightline.open(str(tmp_path / "proton.chrome_trace"))
    ops = run.table("device_ops").sort("start_ns").select("name", "stream_id", "start_ns", "end_ns")
    assert ops.rows() == [
        ("gemm", 7, 500, 5_501),
        ("copy", 9, 2_000, 5_000),
        ("add", 7, 9_000, 10_000),
    ]


def try_reading(folder: Path, data: str | bytes) -> None:
    try:
        read(folder, data)
    except DamagedError as error:
        assert error.why


def test_every_truncation(tmp_path: Path) -> None:
    for cut in sample(range(len(TRACE)), 6):
        try_reading(tmp_path, TRACE[:cut])


@given(flips=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_bytes_changed(flips: list[tuple[int, int]], tmp_path: Path) -> None:
    data = bytearray(TRACE.encode())
    for at, byte in flips:
        data[at % len(data)] = byte
    try_reading(tmp_path, bytes(data))


@pytest.mark.parametrize("value", [None, "x", -1, 2**70, 1e308, [], {}, True])
def test_values_of_another_type(tmp_path: Path, value: Any) -> None:
    for key in kernel("a", 1, 2, 3):
        odd = {**kernel("a", 1, 2, 3), key: value}
        try_reading(tmp_path, line(odd, kernel("b", 1, 2, 3)))
    try_reading(tmp_path, json.dumps({"traceEvents": value}))
