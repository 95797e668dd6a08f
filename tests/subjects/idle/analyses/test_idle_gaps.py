"""idle_gaps: each gap of a device, and its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.ask import rows
from support.traces import TID, call, host, kernel, launch, op, opened

GAP = [kernel("before", 0, 100, 1), kernel("after", 1_000, 50, 2), launch(-20, 5, 1)]


@pytest.mark.parametrize(
    ("cause", "events"),
    [
        ("unknown", []),
        ("host_late", [launch(994, 4, 2)]),
        ("host_sync", [call("cudaDeviceSynchronize", 50, 853), launch(994, 4, 2)]),
        ("data_loading", [op("enumerate(DataLoader)#Iter.__next__", 90, 800), launch(994, 4, 2)]),
        ("allocation", [call("cudaMalloc", 150, 800), launch(994, 4, 2)]),
        (
            "profiler_overhead",
            [host("overhead", "Flush", 120, 800, tid=TID + 1), launch(994, 4, 2)],
        ),
        ("code_loading", [launch(90, 908, 2)]),
        ("not_started", [launch(20, 4, 2)]),
        ("dependency_wait", [call("cudaStreamWaitEvent", 10, 2), launch(20, 4, 2)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cause_of_a_gap_of_900_us(tmp_path: Path, cause: str, events: list[Any]) -> None:
    run = opened(tmp_path, [*GAP, *events])
    assert rows(run, "idle_gaps", "cause", "duration_ns") == [(cause, 900_000)]
    assert (cause, 900_000) in rows(run, "idle", "cause", "total_ns")


def test_gap_inside_a_graph_launch(tmp_path: Path) -> None:
    run = opened(
        tmp_path, [call("cudaGraphLaunch", 0, 5, 1), kernel("a", 10, 5, 1), kernel("b", 16, 5, 1)]
    )
    assert rows(run, "idle_gaps", "cause", "duration_ns") == [("in_graph", 1_000)]


def test_threshold_leaves_out_short_gaps(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 5), kernel("b", 6, 5), kernel("c", 100, 5)])
    assert rows(run, "idle_gaps", "duration_ns") == [(1_000,), (89_000,)]
    assert rows(run, "idle_gaps", "duration_ns", threshold_ns=1_000) == [(89_000,)]
