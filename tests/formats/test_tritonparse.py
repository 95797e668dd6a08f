"""tritonparse's logs: compilations with their stages and callers, launches, damage, real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.formats.triton import tritonparse
from support.damage import survive_damage

STACK = [
    {"line": 9, "name": "main", "filename": "/home/me/train.py", "loc": "step()"},
    {"line": 70, "name": "run", "filename": "/venv/triton/runtime/jit.py", "loc": "compile()"},
]
COMPILED: dict[str, Any] = {
    "event_type": "compilation", "pid": 7, "stack": STACK, "timestamp": "2025-07-07T19:58:29.%fZ",
    "payload": {
        "metadata": {"hash": "abc", "name": "add", "cache_hit": False, "num_warps": 4,
                     "num_stages": 3, "num_ctas": 1, "shared": 2048, "src_constants": {"(4,)": 64},
                     "target": {"backend": "cuda", "arch": 90, "warp_size": 32}},
        "pt_info": {"frame_id": 2, "frame_compile_id": 1, "attempt": 0},
        "python_source": {"file_path": "/home/me/k.py", "start_line": 3,
                          "code": "def add():\n  pass"},
        "times": {"ir_initialization": 5, "lowering_stages": [["ttir", 20], ["cubin", 300]],
                  "store_results": 2},
    },
}  # fmt: skip
LAUNCHED = {
    "event_type": "launch", "name": "add", "stream": 0, "grid": [98, 1], "stack": STACK,
    "compilation_metadata": {"hash": "abc", "name": "add"},
    "extracted_args": {"x": {"type": "tensor", "shape": [8, 4], "dtype": "torch.float32"},
                       "n": {"type": "int", "value": 5}},
}  # fmt: skip


def write(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events))
    return path


def test_compilations_stages_and_launches(tmp_path: Path) -> None:
    run = sightline.open(str(write(tmp_path / "log.ndjson", COMPILED, LAUNCHED, LAUNCHED)))
    row = run.table("compilations").drop("rank", "recording_id").row(0, named=True)
    assert row == {
        "compilation_id": row["compilation_id"], "name": "add", "hash": "abc", "pid": 7,
        "cache_hit": False, "target": "cuda 90", "num_warps": 4, "num_stages": 3, "num_ctas": 1,
        "shared_bytes": 2048, "constants": "4=64", "file": "/home/me/k.py", "line": 3,
        "caller_file": "/home/me/train.py", "caller_line": 9, "caller": "main",
        "pytorch_frame": "2/1", "duration_ns": 327_000,
    }  # fmt: skip
    stages = run.table("compile_stages").select("stage", "duration_ns").rows()
    assert stages == [
        ("ir_initialization", 5_000),
        ("ttir", 20_000),
        ("cubin", 300_000),
        ("store_results", 2_000),
    ]
    launches = run.table("logged_launches").select(
        "grid_x", "grid_y", "grid_z", "arguments", "launches"
    )
    assert launches.rows() == [(98, 1, 1, "x: float32[8, 4], n: 5", 2)]
    assert run.table("source_files").get_column("content").item() == "\n\ndef add():\n  pass"


def test_what_was_compiled_and_for_how_long(tmp_path: Path) -> None:
    hit = json.loads(json.dumps(COMPILED))
    hit["payload"]["metadata"]["cache_hit"] = True
    run = sightline.open(str(write(tmp_path / "log.ndjson", COMPILED, hit, LAUNCHED)))
    assert run.ask("compilations").rows() == [
        ("add", 1, 1, 327_000, "cubin", 300_000, 1, "/home/me/k.py:3", "/home/me/train.py:9")
    ]


def test_damage(tmp_path: Path) -> None:
    golden = write(tmp_path / "golden", COMPILED, LAUNCHED).read_bytes()
    survive_damage(tritonparse.read, tmp_path / "x", golden)


LOG = "dedicated_log_triton_trace_findhao_.ndjson"


@pytest.mark.corpus
def test_a_real_log_is_what_json_says(corpus: Path) -> None:
    path = corpus / "tritonparse/meta-pytorch__tritonparse/tests/example_output/logs" / LOG
    events = [json.loads(line) for line in path.read_text().splitlines()]
    rows = sightline.open(str(path)).table("compilations").select(
        "name", "cache_hit", "num_warps", "shared_bytes", "duration_ns", "file", "line"
    )  # fmt: skip
    expected = []
    for event in events:
        metadata, source = event["payload"]["metadata"], event["payload"]["python_source"]
        times = event["payload"]["times"]
        us = times["ir_initialization"] + times["store_results"]
        us += sum(length for _, length in times["lowering_stages"])
        place = (source["file_path"], source["start_line"])
        expected.append((metadata["name"], metadata["cache_hit"], metadata["num_warps"],
                         metadata["shared"], us * 1000, *place))  # fmt: skip
    assert rows.rows() == expected
    assert [row[0] for row in expected] == ["add_kernel", "triton_poi_fused_add_0"]
