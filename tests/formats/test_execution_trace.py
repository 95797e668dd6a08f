"""Execution traces of PyTorch: timed by Chakra's linker they are read, without times refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import DamagedError

TS = 1_700_000_000_000_000


def node(number: int, name: str, tid: int = 1, **more: Any) -> dict[str, Any]:
    attributes = [{"name": "rf_id", "type": "uint64", "value": number},
                  {"name": "tid", "type": "uint64", "value": tid}]  # fmt: skip
    return {"id": number, "name": name, "ctrl_deps": 1, "inputs": {}, "outputs": {},
            "attrs": attributes, **more}  # fmt: skip


def kernel(number: int, name: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    return node(number, name, ts=start, inclusive_dur=length, exclusive_dur=length, cat="kernel",
                ph="X", **more)  # fmt: skip


def write(path: Path, *nodes: dict[str, Any]) -> Path:
    trace = {"schema": "1.1.0-chakra.0.0.4", "pid": 4, "start_ts": 1, "nodes": nodes}
    path.write_text(json.dumps(trace))
    return path


def test_operators_kernels_and_copies_with_their_times(tmp_path: Path) -> None:
    path = write(
        tmp_path / "et_plus.json",
        node(2, "[pytorch|profiler|execution_trace|thread]", ts=TS, inclusive_dur=900),
        node(3, "aten::linear", ts=TS + 10, inclusive_dur=50, exclusive_dur=20),
        node(4, "aten::addmm", ts=TS + 20, inclusive_dur=30, exclusive_dur=30),
        node(5, "aten::relu", tid=2, ts=TS + 100, inclusive_dur=5),
        node(6, "aten::no_time"),
        kernel(7, "gemm", TS + 40, 500, stream=7),
        {**kernel(8, "Memcpy HtoD", TS + 600, 20, stream=13), "cat": "gpu_memcpy"},
        {**kernel(9, "a range", TS, 20), "cat": "gpu_user_annotation"},
    )
    run = sightline.open(str(path))
    at = TS * 1000
    ops = run.table("device_ops").select("kind", "name", "start_ns", "end_ns", "stream_id")
    assert ops.rows() == [
        ("kernel", "gemm", at + 40_000, at + 540_000, 7),
        ("memcpy", "Memcpy HtoD", at + 600_000, at + 620_000, 13),
    ]
    host = run.table("host_ops").select("name", "tid", "start_ns", "end_ns", "depth")
    assert host.sort("start_ns").rows() == [
        ("aten::linear", 1, at + 10_000, at + 60_000, 0),
        ("aten::addmm", 1, at + 20_000, at + 50_000, 1),
        ("aten::relu", 2, at + 100_000, at + 105_000, 0),
    ]


def test_digits_that_a_double_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "et_plus.json"
    text = write(path, kernel(7, "gemm", 1.5, 2.5, stream=7)).read_text()
    path.write_text(text.replace('"ts": 1.5', f'"ts": {TS}.123'))
    start = sightline.open(str(path)).table("device_ops").get_column("start_ns").item()
    assert start == TS * 1000 + 123


def test_a_graph_without_times_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "et.json", node(3, "aten::linear"), node(4, "aten::addmm"))
    with pytest.raises(DamagedError, match="no times of a GPU"):
        sightline.open(str(path))
