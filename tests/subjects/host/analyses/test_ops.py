"""ops: time of operators on host and device, own and with what they call."""

from __future__ import annotations

import json
from pathlib import Path

import sightline as sl
from support.ask import rows
from support.traces import kernel, launch, op, opened


def test_ops_own_and_total_time(tmp_path: Path) -> None:
    """aten::linear [0, 100) calls aten::addmm [10, 60), which launches 40 µs of device work;
    linear itself launches 5 µs, a call outside every operator 3 µs, and 7 µs have no call.
    """
    run = opened(
        tmp_path,
        [
            op("aten::linear", 0, 100),
            op("aten::addmm", 10, 50),
            launch(20, 5, 1),
            launch(70, 5, 2),
            launch(120, 5, 3),
            kernel("gemm", 30, 40, 1),
            kernel("bias", 80, 5, 2),
            kernel("stray", 130, 3, 3),
            kernel("early", 10, 7, 99),
        ],
    )
    assert rows(
        run,
        "ops",
        "name",
        "instances",
        "host_total_ns",
        "host_self_ns",
        "device_total_ns",
        "device_self_ns",
        "launches",
    ) == [
        ("aten::addmm", 1, 50_000, 45_000, 40_000, 40_000, 1),
        ("(launch not recorded)", 0, 0, 0, 0, 7_000, 1),
        ("aten::linear", 1, 100_000, 45_000, 45_000, 5_000, 1),
        ("(no operator)", 0, 0, 0, 0, 3_000, 1),
    ]


def test_operator_that_calls_itself_counts_once_in_its_total(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [op("aten::add", 0, 100), op("aten::add", 10, 50), launch(20, 5, 1), kernel("k", 30, 9, 1)],
    )
    assert rows(run, "ops", "instances", "host_total_ns", "host_self_ns", "device_total_ns") == [
        (2, 100_000, 95_000, 9_000)
    ]


def test_memory_is_of_the_operator_that_took_it(tmp_path):
    """linear allocates 64 in addmm below it and 16 itself, and relu frees 32."""
    ops = [("aten::linear", 0, 100), ("aten::addmm", 10, 50), ("aten::relu", 200, 50)]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": at, "dur": long, "pid": 7, "tid": 7}
        for name, at, long in ops
    ]
    total = 0
    for at, size in ((20, 64), (80, 16), (220, -32), (500, 8)):
        total += size
        args = {"Device Type": 1, "Device Id": 0, "Addr": 1000 + abs(size), "Bytes": size,
                "Total Allocated": total, "Total Reserved": 1000}  # fmt: skip
        events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
                       "ts": at, "pid": 7, "tid": 7, "args": args})  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    rows = sl.open(str(path)).ask("ops").select("name", "memory_total_bytes", "memory_self_bytes")
    assert {name: rest for name, *rest in rows.iter_rows()} == {
        "aten::linear": [80, 16],
        "aten::addmm": [64, 64],
        "aten::relu": [-32, -32],
    }
    events = [event for event in events if event["ph"] == "X"]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert sl.open(str(path)).ask("ops")["memory_total_bytes"].null_count() == 3
