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
        ("not_recorded", [call("cudaStreamWaitEvent", 10, 2), launch(20, 4, 2)]),
        ("not_recorded", [call("cudaGraphLaunch", 10, 2), launch(20, 4, 2)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cause_of_a_gap_of_900_us(tmp_path: Path, cause: str, events: list[Any]) -> None:
    run = opened(tmp_path, [*GAP, *events])
    assert rows(run, "idle_gaps", "cause", "duration_ns") == [(cause, 900_000)]
    assert (cause, 900_000) in rows(run, "idle", "cause", "total_ns")


def test_until_work_that_is_lost_is_launched_the_host_is_late(tmp_path: Path) -> None:
    """Idle from 100; the graph is launched at 400, and what is recorded behind it at 600."""
    events = [call("cudaGraphLaunch", 400, 5), launch(600, 4, 2)]
    run = opened(tmp_path, [*GAP, *events])
    parts = dict(rows(run, "idle_parts", "cause", "part_ns"))
    assert parts == {"host_late": 300_000, "not_recorded": 600_000}


def test_a_captured_launch_is_not_lost(tmp_path: Path) -> None:
    """What a stream captures runs nothing."""
    events = [
        call("cudaStreamBeginCapture", 200, 1),
        launch(210, 4, 7),
        call("cudaStreamEndCapture", 220, 1),
        launch(994, 4, 2),
    ]
    run = opened(tmp_path, [*GAP, *events])
    assert "not_recorded" not in dict(rows(run, "idle_parts", "cause", "part_ns"))


def test_an_event_of_another_device_may_be_recorded(tmp_path: Path) -> None:
    elsewhere = [launch(-30, 4, 9), kernel("elsewhere", 0, 990, 9, device=1)]
    wait = [call("cudaStreamWaitEvent", 10, 2), launch(20, 4, 2)]
    run = opened(tmp_path, [*GAP, *elsewhere, *wait])
    assert ("dependency_wait", 900_000) in rows(run, "idle", "cause", "total_ns")


def test_gap_inside_a_graph_launch(tmp_path: Path) -> None:
    run = opened(
        tmp_path, [call("cudaGraphLaunch", 0, 5, 1), kernel("a", 10, 5, 1), kernel("b", 16, 5, 1)]
    )
    assert rows(run, "idle_gaps", "cause", "duration_ns") == [("in_graph", 1_000)]


def test_threshold_leaves_out_short_gaps(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 5), kernel("b", 6, 5), kernel("c", 100, 5)])
    assert rows(run, "idle_gaps", "duration_ns") == [(1_000,), (89_000,)]
    assert rows(run, "idle_gaps", "duration_ns", threshold_ns=1_000) == [(89_000,)]
