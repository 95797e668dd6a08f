"""Proton's timelines: a document for each stream, and damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.triton import proton_trace
from support.damage import survive_damage


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


def test_one_odd_event_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    odd = [{**kernel("odd", 1, 2, 7), key: "x"} for key in ("ts", "dur")]
    imported = read(tmp_path, line(kernel("gemm", 0.5, 5.001, 7), *odd, kernel("add", 9, 1, 7)))
    assert imported.tables["device_ops"].get_column("name").to_list() == ["gemm", "add"]
    assert {note.kind: note.count for note in imported.quality}["damaged_lines"] == 2


def test_damage(tmp_path: Path) -> None:
    survive_damage(proton_trace.read, tmp_path / "x", TRACE)


NAMES = st.text(st.sampled_from('ag_1<>,:{}[]"\\ é\x0b'), max_size=6) | st.sampled_from(
    ["},{", '","ph":"X","tid":3,"ts":4}', "gemm<float, 8>"]
)


@given(st.lists(st.tuples(NAMES, st.floats(0, 1e12), st.floats(0, 1e6), st.integers(-2, 9))))
def test_events_are_split_as_json_reads_them(events: list[tuple[str, float, float, int]]) -> None:
    written = [
        {"args": {"call_stack": ["ROOT", name]}, "cat": "kernel", "dur": dur, "name": name}
        | {"ph": "X", "tid": tid, "ts": ts}
        for name, ts, dur, tid in events
    ]
    document = {"displayTimeUnit": "us", "traceEvents": written}
    line = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    found = proton_trace._split_stream(line) or proton_trace._parse_stream(line.decode())
    rows = found[0].select("name", "ts", "dur", "tid").rows()
    assert rows == [(name, ts, dur, tid) for name, ts, dur, tid in events]
