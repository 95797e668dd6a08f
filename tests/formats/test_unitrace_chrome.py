"""unitrace's Chrome JSON: as its source writes it, and as its users have quoted it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.intel import unitrace_chrome
from support.damage import survive_damage

# As chromelogger.h writes it: a process of a device and its engine's thread count down from 2³².
GPU, ENGINE = 4294967295, 4294967295
HOST = '"tid": 7, "pid": 5'
DEVICE = f'"tid": {ENGINE}, "pid": {GPU}'
CALL, WAIT = "zeCommandListAppendLaunchKernel", "zeEventHostSynchronize"
LINES = (
    f'{{"ph": "X", {HOST}, "name": "a "b" c", "cat": "cpu_op", "ts": 90, "dur": 60, "id": 0}},',
    f'{{"ph": "X", {HOST}, "name": "{CALL}", "cat": "cpu_op", "ts": 100, "dur": 9, "id": 0}},',
    f'{{"ph": "s", {HOST}, "name": "dep", "cat": "Flow_H2D_1_0", "ts": 100, "id": 1}},',
    f'{{"ph": "X", {HOST}, "name": "{WAIT}", "cat": "cpu_op", "ts": 110, "dur": 30, "id": 0}},',
    f'{{"ph": "t", {HOST}, "name": "dep", "cat": "Flow_D2H_1_0", "ts": 110, "id": 1}},',
    f'{{"ph": "B", {HOST}, "name": "task", "cat": "cpu_op", "ts": 200, "id": 0}},',
    f'{{"ph": "E", {HOST}, "name": "task", "cat": "cpu_op", "ts": 230, "id": 0}},',
    f'{{"ph": "X", {DEVICE}, "name": "gemm[SIMD32 {{1568; 1; 1}} {{512; 1; 1}}]", '
    '"cat": "gpu_op", "ts": 120, "dur": 12, "args": {"id": "1"}},',
    f'{{"ph": "t", {DEVICE}, "name": "dep", "cat": "Flow_H2D_1_0", "ts": 120, "id": 1}},',
    f'{{"ph": "s", {DEVICE}, "name": "dep", "cat": "Flow_D2H_1_0", "ts": 120, "id": 1}},',
    f'{{"ph": "X", {DEVICE}, "name": "zeCommandListAppendMemoryCopy(D2M)[4096]", '
    '"cat": "gpu_op", "ts": 140, "dur": 2, "args": {"id": "2"}},',
    f'{{"ph": "X", {DEVICE}, "name": "zeCommandListAppendBarrier", '
    '"cat": "gpu_op", "ts": 120, "dur": 20, "args": {"id": "3"}},',
)  # fmt: skip
END = (
    '{"ph": "M", "name": "process_name", "pid": 5, "ts": 1, '
    '"args": {"name": "RANK 3 HOST<node>"}},\n'
    f'{{"ph": "M", "name": "process_name", "pid": {GPU}, "ts": 1, '
    '"args": {"name": "RANK 3 DEVICE<node>0:29:0:0 #0"}}\n]\n}\n'
)


def write(path: Path, *lines: str, end: str = END) -> Path:
    path.write_text('{ "traceEvents":[\n' + "\n".join(lines) + "\n" + end)
    return path


def read(path: Path) -> Imported:
    imported: Imported = unitrace_chrome.read(Source(path, path.name), ImportOptions())
    return imported


def test_what_becomes_what(tmp_path: Path) -> None:
    imported = read(write(tmp_path / "a.json", *LINES))
    ops, calls = imported.tables["device_ops"], imported.tables["host_ops"]
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "kind", "name", "bytes", "copy_kind")
    copy = "zeCommandListAppendMemoryCopy(D2M)"
    assert ops.select(columns).rows() == [
        (120_000, 132_000, 0, 0, "kernel", "gemm", None, None),
        (140_000, 142_000, 0, 0, "memcpy", copy, 4096, "DtoH"),
    ]
    assert ops.select("grid_x", "block_x").row(0) == (1568, 512)
    assert imported.tables["device_ranges"].rows() == [
        (0, 120_000, 140_000, "zeCommandListAppendBarrier")
    ]
    assert calls.select("name", "layer", "start_ns", "end_ns", "depth").rows() == [
        ('a "b" c', "annotation", 90_000, 150_000, 0),
        (CALL, "driver", 100_000, 109_000, 1),
        (WAIT, "driver", 110_000, 140_000, 1),
        ("task", "annotation", 200_000, 230_000, 0),
    ]
    assert ops.get_column("launch_id").to_list() == [1, None]
    assert imported.recording.rank == 3
    assert not any("node" in str(frame.rows()) for frame in imported.tables.values())


def test_a_trace_as_a_user_quoted_it_is_of_kernels(tmp_path: Path) -> None:
    """Two events of intel/pti-gpu's issue 52, which asks for the shape to be apart."""
    device = '"tid": 4294950910, "pid": 4294950911'
    path = write(
        tmp_path / "python.json",
        f'{{"ph": "X", {device}, "name": "gen9_eltwise_bwd[SIMD32 {{1568; 1; 1}} {{512; 1; 1}}]", '
        '"cat": "gpu_op", "ts": 1703105438709308, "dur": 9, "args": {"id": "3418"}},',
        f'{{"ph": "X", {device}, "name": "gen9_fused_reduce_init[SIMD32 {{128; 1; 1}} {{1; 1; 1}}]"'
        ', "cat": "gpu_op", "ts": 1703105438709404, "dur": 3, "args": {"id": "3419"}},',
        end="",
    )
    run = sightline.open(str(path))
    ops = run.table("device_ops").select("name", "kind", "grid_x", "start_ns", "end_ns").rows()
    at = 1_703_105_438_709_000_000
    assert ops == [
        ("gen9_eltwise_bwd", "kernel", 1568, at + 308_000, at + 317_000),
        ("gen9_fused_reduce_init", "kernel", 128, at + 404_000, at + 407_000),
    ]


def test_every_launch_is_found_as_json_says(tmp_path: Path) -> None:
    """Two threads and two devices, joined once more with json and dictionaries."""
    dice, lines = random.Random(5), []
    for number in range(400):
        thread, device, at = 7 + number % 2, GPU - number % 3 // 2, 1_000 + 10 * number
        host = f'"tid": {thread}, "pid": 5'
        place = f'"tid": {device - 10}, "pid": {device}'
        lines += [
            f'{{"ph": "X", {host}, "name": "{CALL}", "cat": "cpu_op", "ts": {at}, '
            f'"dur": {dice.randint(1, 4)}, "id": 0}},',
            f'{{"ph": "s", {host}, "name": "dep", "cat": "Flow_H2D_{number}_0", "ts": {at}, '
            f'"id": {number}}},',
            f'{{"ph": "X", {place}, "name": "k{number}[SIMD8 {{1; 1; 1}} {{8; 1; 1}}]", '
            f'"cat": "gpu_op", "ts": {at + dice.randint(1, 900)}, "dur": {dice.randint(0, 9)}, '
            f'"args": {{"id": "{number}"}}}},',
        ]
    path = write(tmp_path / "many.json", *lines)
    events = json.loads(path.read_text())["traceEvents"]
    calls = {e["id"]: e for e in events if e["ph"] == "s"}
    expected = {
        e["name"].partition("[")[0]: calls[int(e["args"]["id"])]["ts"] * 1000
        for e in events
        if e.get("cat") == "gpu_op"
    }
    tables = read(path).tables
    joined = tables["device_ops"].join(
        tables["host_ops"].select(launch_id="host_op_id", called_ns="start_ns"), on="launch_id"
    )
    assert dict(joined.select("name", "called_ns").rows()) == expected
    assert joined.get_column("device_id").n_unique() == 2


def test_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "whole.json", *LINES)
    # Names are not escaped, so it is no JSON: behind a space its numbers are changed as texts.
    survive_damage(unitrace_chrome.read, path, b" " + path.read_bytes())
