"""ops: time of operators on host and device, own and with what they call."""

from __future__ import annotations

from pathlib import Path

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
