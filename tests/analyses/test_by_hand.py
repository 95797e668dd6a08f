"""Analyses of traces of a few events, with values that a person can add up.

Event times are in µs; answers are in ns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.errors import MissingDataError, RequestError
from sightline.model.run import Run
from support.traces import TID, call, copy, host, kernel, launch, op, opened, step


def rows(run: Run, analysis: str, *fields: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return run.ask(analysis, **parameters).select(*fields).rows()


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


def test_launches_api_queue_and_depth(tmp_path: Path) -> None:
    """Three launches into a stream that is busy until 50; the second stream is idle."""
    run = opened(
        tmp_path,
        [
            launch(0, 4, 1),
            launch(10, 4, 2),
            launch(20, 4, 3),
            launch(60, 4, 4),
            launch(30, 4, 5),
            kernel("a", 6, 44, 1),
            kernel("b", 51, 10, 2),
            kernel("c", 62, 10, 3),
            kernel("d", 73, 10, 4),
            kernel("other", 33, 10, 5, stream=8),
        ],
    )
    assert rows(
        run,
        "kernel_launches",
        "name",
        "api",
        "api_ns",
        "queue_ns",
        "launch_to_start_ns",
        "duration_ns",
        "queue_depth",
    ) == [
        ("a", "cudaLaunchKernel", 4_000, 2_000, 6_000, 44_000, 0),
        ("b", "cudaLaunchKernel", 4_000, 37_000, 41_000, 10_000, 0),
        ("c", "cudaLaunchKernel", 4_000, 38_000, 42_000, 10_000, 1),
        ("other", "cudaLaunchKernel", 4_000, 0, 3_000, 10_000, 0),
        ("d", "cudaLaunchKernel", 4_000, 9_000, 13_000, 10_000, 1),
    ]


def test_kernel_that_starts_before_its_launch_was_never_queued(tmp_path: Path) -> None:
    """Two clocks that disagree: no depth below zero, no negative queue time."""
    run = opened(
        tmp_path, [launch(10, 4, 1), launch(20, 4, 2), kernel("a", 8, 3, 1), kernel("b", 20, 3, 2)]
    )
    assert rows(run, "kernel_launches", "launch_to_start_ns", "queue_ns", "queue_depth") == [
        (-2_000, 0, 0),
        (0, 0, 0),
    ]


def test_kernels_statistics(tmp_path: Path) -> None:
    """Durations 10, 20, 60 of one name and 10 of another, in a window of 200."""
    run = opened(
        tmp_path,
        [kernel("a", 0, 10), kernel("a", 20, 20), kernel("a", 50, 60), kernel("b", 190, 10)],
    )
    assert rows(
        run,
        "kernels",
        "name",
        "instances",
        "total_ns",
        "mean_ns",
        "median_ns",
        "min_ns",
        "max_ns",
        "window_pct",
        "kernel_pct",
    ) == [
        ("a", 3, 90_000, 30_000.0, 20_000.0, 10_000, 60_000, pytest.approx(45), pytest.approx(90)),
        ("b", 1, 10_000, 10_000.0, 10_000.0, 10_000, 10_000, pytest.approx(5), pytest.approx(10)),
    ]
    a, b = rows(run, "kernels", "stddev_ns")
    assert a[0] == pytest.approx(26457.513)  # sqrt((20² + 10² + 30²) / 2) µs
    assert b[0] is None


def test_copies_by_direction_and_memory(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            copy("Memcpy HtoD (Pinned -> Device)", 0, 100, 2_500_000),
            copy("Memcpy HtoD (Pinned -> Device)", 200, 100, 2_500_000),
            copy("Memcpy DtoH (Device -> Pageable)", 400, 50, None),
            kernel("Memset (Device)", 990, 10, cat="gpu_memset", bytes=1_000),
        ],
    )
    assert rows(
        run,
        "memcpy",
        "kind",
        "copy_kind",
        "src_kind",
        "dst_kind",
        "copies",
        "total_ns",
        "window_pct",
        "bytes",
        "median_bytes",
        "gb_per_s",
    ) == [
        ("memcpy", "HtoD", "pinned", "device", 2, 200_000, 20.0, 5_000_000, 2_500_000, 25.0),
        ("memcpy", "DtoH", "device", "pageable", 1, 50_000, 5.0, None, None, None),
        ("memset", None, None, None, 1, 10_000, 1.0, 1_000, 1_000, 0.1),
    ]


def test_overlap_of_communication_and_copies(tmp_path: Path) -> None:
    """compute [0, 100), nccl [50, 130) on two streams twice over, copies [120, 150)."""
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 100),
            kernel("ncclDevKernel_AllReduce", 50, 80, stream=9),
            kernel("ncclDevKernel_AllReduce", 60, 40, stream=10),
            copy("Memcpy HtoD (Pinned -> Device)", 120, 30, 8),
        ],
    )
    assert run.ask("overlap").to_dicts() == [
        {
            "rank": 0,
            "device_id": 0,
            "compute_ns": 100_000,
            "comm_ns": 80_000,
            "comm_overlap_ns": 50_000,
            "comm_overlap_pct": 62.5,
            "exposed_comm_ns": 30_000,
            "copy_ns": 30_000,
            "copy_overlap_ns": 10_000,
            "copy_overlap_pct": pytest.approx(100 / 3),
        }
    ]


def test_streams(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            kernel("a", 0, 50),
            kernel("a", 40, 20),
            kernel("b", 100, 100, stream=8),
            copy("Memcpy HtoD (Pinned -> Device)", 10, 10, 8, stream=8),
        ],
    )
    assert rows(
        run,
        "streams",
        "stream_id",
        "ops",
        "kernels",
        "copies",
        "first_ns",
        "last_ns",
        "busy_ns",
        "window_pct",
    ) == [
        (7, 2, 2, 0, 0, 60_000, 60_000, pytest.approx(30)),
        (8, 2, 1, 1, 10_000, 200_000, 110_000, pytest.approx(55)),
    ]


def test_steps_hold_the_device_time_that_falls_in_them(tmp_path: Path) -> None:
    """A kernel of the first step, [80, 130), still runs in the second."""
    run = opened(
        tmp_path,
        [
            step(1, 0, 100),
            step(2, 100, 100),
            launch(10, 5, 1),
            launch(110, 5, 2),
            kernel("a", 80, 50, 1),
            copy("Memcpy DtoH (Device -> Pinned)", 150, 10, 8, correlation=2),
        ],
    )
    assert rows(
        run,
        "steps",
        "step",
        "start_ns",
        "duration_ns",
        "compute_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "idle_ns",
        "launched_ops",
    ) == [
        ("ProfilerStep#1", 0, 100_000, 20_000, 0, 0, 80_000, 1),
        ("ProfilerStep#2", 100_000, 100_000, 30_000, 0, 10_000, 60_000, 1),
    ]


def test_annotations_get_what_was_launched_in_them(tmp_path: Path) -> None:
    """forward [0, 50) holds attention [10, 30); kernels of attention overlap on two streams."""
    run = opened(
        tmp_path,
        [
            host("user_annotation", "forward", 0, 50),
            host("user_annotation", "attention", 10, 20),
            launch(12, 2, 1),
            launch(16, 2, 2),
            launch(40, 2, 3),
            launch(60, 2, 4),
            kernel("a", 100, 20, 1),
            kernel("b", 110, 20, 2, stream=8),
            kernel("c", 150, 5, 3),
            kernel("d", 200, 5, 4),
        ],
    )
    assert rows(
        run,
        "annotations",
        "path",
        "depth",
        "instances",
        "host_ns",
        "device_ops",
        "device_ns",
        "device_busy_ns",
        "projected_ns",
    ) == [
        ("forward", 0, 1, 50_000, 3, 45_000, 35_000, 55_000),
        ("forward / attention", 1, 1, 20_000, 2, 40_000, 30_000, 30_000),
    ]


GAP = [kernel("before", 0, 100, 1), kernel("after", 1_000, 50, 2), launch(-20, 5, 1)]


@pytest.mark.parametrize(
    ("cause", "events"),
    [
        ("unknown", []),
        ("host_late", [launch(994, 4, 2)]),
        ("host_sync", [call("cudaDeviceSynchronize", 50, 53), launch(994, 4, 2)]),
        ("data_loading", [op("enumerate(DataLoader)#Iter.__next__", 90, 800), launch(994, 4, 2)]),
        ("alloc_or_load", [call("cudaMalloc", 150, 800), launch(994, 4, 2)]),
        (
            "profiler_overhead",
            [host("overhead", "Flush", 120, 800, tid=TID + 1), launch(994, 4, 2)],
        ),
        ("launch_latency", [launch(90, 908, 2)]),
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


@pytest.mark.parametrize(
    ("window", "parts"),
    [
        (None, (200_000, 60_000, 140_000)),
        ("50us..150us", (100_000, 20_000, 80_000)),
        ("..50us", (50_000, 10_000, 40_000)),
        ("150us..", (50_000, 30_000, 20_000)),
        ("step:2", (100_000, 50_000, 50_000)),
        ("steady", (190_000, 50_000, 140_000)),
    ],
)
def test_windows(tmp_path: Path, window: str | None, parts: tuple[int, int, int]) -> None:
    """Kernels [10, 20), [110, 130), [180, 210); steps [0, 20), [110, 210), [210, 300)."""
    run = opened(
        tmp_path,
        [
            step(1, 0, 20),
            step(2, 110, 100),
            step(3, 210, 90),
            kernel("a", 10, 10),
            kernel("b", 110, 20),
            kernel("c", 180, 30),
        ],
    ).with_window(window)
    assert rows(run, "breakdown", "window_ns", "compute_ns", "idle_ns") == [parts]


@pytest.mark.parametrize("window", ["nonsense", "5us..1us", "step:9", "1..x"])
def test_window_that_does_not_exist(tmp_path: Path, window: str) -> None:
    run = opened(tmp_path, [step(1, 0, 20), kernel("a", 10, 10)]).with_window(window)
    with pytest.raises(RequestError):
        run.ask("breakdown")


def test_steady_window_needs_steps(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 10, 10)]).with_window("steady")
    with pytest.raises(MissingDataError):
        run.ask("breakdown")
