"""critical_path: the chain of work and waiting that leads to the window's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.ask import rows
from support.traces import call, collective, copy, kernel, launched, op, opened, opened_ranks


def pieces(run: Any) -> list[tuple[Any, ...]]:
    return rows(run, "critical_path", "start_ns", "end_ns", "part", "name")


def test_a_kernel_that_was_launched_late(tmp_path: Path) -> None:
    """It waited for its launch at 200, and that for the host since the window began."""
    run = opened(tmp_path, [launched(0, kernel("a", 10, 100)), launched(200, kernel("b", 210, 50))])
    assert pieces(run) == [
        (10_000, 200_000, "CPU code between calls", "cudaLaunchKernel"),
        (200_000, 210_000, "launch latency", "b"),
        (210_000, 260_000, "compute", "b"),
    ]


def test_a_kernel_that_was_queued(tmp_path: Path) -> None:
    run = opened(tmp_path, [launched(0, kernel("a", 10, 100)), launched(20, kernel("b", 111, 50))])
    assert pieces(run) == [
        (10_000, 110_000, "compute", "a"),
        (110_000, 111_000, "gap on the stream", "b"),
        (111_000, 161_000, "compute", "b"),
    ]


def test_a_wait_of_the_host(tmp_path: Path) -> None:
    """The call returns 5 µs after kernel a, and 10 µs later kernel b is launched."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaDeviceSynchronize", 20, 95),
            launched(125, kernel("b", 135, 50)),
        ],
    )
    assert pieces(run) == [
        (10_000, 110_000, "compute", "a"),
        (110_000, 115_000, "return of a wait", "cudaDeviceSynchronize"),
        (115_000, 125_000, "CPU code between calls", "cudaLaunchKernel"),
        (125_000, 135_000, "launch latency", "b"),
        (135_000, 185_000, "compute", "b"),
    ]


def test_a_wait_for_what_was_launched_before_the_recording(tmp_path: Path) -> None:
    """The recording begins while the device works and the host waits for it, until 120."""
    run = opened(
        tmp_path,
        [
            kernel("a", 10, 40),
            kernel("b", 51, 64),
            call("cudaDeviceSynchronize", 5, 115),
            launched(125, kernel("c", 135, 50)),
        ],
    )
    assert pieces(run) == [
        (10_000, 50_000, "compute", "a"),
        (50_000, 51_000, "gap on the stream", "b"),
        (51_000, 115_000, "compute", "b"),
        (115_000, 120_000, "return of a wait", "cudaDeviceSynchronize"),
        (120_000, 125_000, "CPU code between calls", "cudaLaunchKernel"),
        (125_000, 135_000, "launch latency", "c"),
        (135_000, 185_000, "compute", "c"),
    ]


def test_no_call_waits_for_what_another_thread_may_have_launched(tmp_path: Path) -> None:
    """The launch of b was lost in the midst of the recording: nobody knows when that was."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 10)),
            call("cudaDeviceSynchronize", 25, 95),
            kernel("b", 51, 64),
            launched(125, kernel("c", 135, 50)),
        ],
    )
    assert "return of a wait" not in [part for _, _, part, _ in pieces(run)]


def test_a_collective_leads_to_the_rank_that_came_last(tmp_path: Path) -> None:
    """Rank 1 computes until 410, and the transfer takes 100 µs from there."""
    run = opened_ranks(
        tmp_path,
        [launched(0, kernel("a", 10, 100)), launched(20, collective(110, 400))],
        [launched(0, kernel("b", 10, 400)), launched(20, collective(410, 100))],
    )
    assert pieces(run) == [
        (10_000, 410_000, "compute", "b"),
        (410_000, 510_000, "communication", "ncclDevKernel_allreduce"),
    ]


def test_an_operation_of_another_stream_is_the_best_guess(tmp_path: Path) -> None:
    """Kernel c was launched in time and has a stream to itself; b ended 300 µs before it starts."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 1000)),
            launched(10, kernel("b", 1011, 1000)),
            launched(20, kernel("c", 2311, 100, stream=8)),
        ],
    )
    assert rows(run, "critical_path", "start_ns", "end_ns", "part", "basis")[-3:] == [
        (2_011_000, 2_013_000, "event wait", "guessed"),
        (2_013_000, 2_311_000, "not explained", None),
        (2_311_000, 2_411_000, "compute", "recorded"),
    ]


def test_a_stream_that_starts_when_another_one_ends(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [launched(0, kernel("a", 10, 1000)), launched(10, kernel("b", 1012, 100, stream=8))],
    )
    assert rows(run, "critical_path", "part", "basis") == [
        ("compute", "recorded"),
        ("event wait", "inferred"),
        ("compute", "recorded"),
    ]


def test_an_operation_without_a_launch(tmp_path: Path) -> None:
    """Nothing ran for 390 µs, and who launched b was not recorded."""
    run = opened(tmp_path, [launched(0, kernel("a", 10, 100)), kernel("b", 500, 100)])
    assert rows(run, "critical_path", "start_ns", "end_ns", "part", "basis") == [
        (10_000, 110_000, "compute", "recorded"),
        (110_000, 111_000, "gap on the stream", "recorded"),
        (111_000, 500_000, "launch not recorded", "guessed"),
        (500_000, 600_000, "compute", "recorded"),
    ]


def test_an_operation_that_starts_after_its_launch_took_long(tmp_path: Path) -> None:
    """The call of b, [200, 700), loads code; 185 µs behind it b starts, and nobody knows why."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(200, kernel("b", 885, 100), dur=500),
        ],
    )
    assert rows(run, "critical_path", "start_ns", "end_ns", "part", "basis")[-3:] == [
        (200_000, 700_000, "launch latency", "recorded"),
        (700_000, 885_000, "not explained", None),
        (885_000, 985_000, "compute", "recorded"),
    ]


@pytest.mark.parametrize(
    ("name", "until", "part"),
    [
        ("hipMemcpyWithStream", 510, "launched, not started"),
        ("hipMemcpyWithStream", 400, "not explained"),  # for 275 of the 390 µs
        ("aten::empty", 510, "not explained"),
    ],
)
def test_an_operation_held_while_a_call_waits(
    tmp_path: Path, name: str, until: int, part: str
) -> None:
    """b is launched at 115 and starts at 515; from 125 on the host waits for the copy behind it."""
    down = copy("Memcpy DtoH (Device -> Pageable)", 615, 5, 8)
    waits = name.startswith("hip")
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(115, kernel("b", 515, 100), "hipLaunchKernel"),
            launched(125, down, name, until + 112 - 125) if waits else op(name, 125, 487),
        ],
    )
    pieces = rows(run, "critical_path", "start_ns", "end_ns", "part", "basis")
    assert (125_000, 515_000, part, "guessed" if "launched" in part else None) in pieces


@pytest.mark.parametrize(
    ("launch", "part", "basis"),
    [
        ("cudaGraphLaunch", "start of a graph", "guessed"),
        ("cudaLaunchKernel", "not explained", None),
    ],
)
def test_a_graph_that_begins_late(
    tmp_path: Path, launch: str, part: str, basis: str | None
) -> None:
    """b and c were launched while others ran. b begins 1 µs after a, c 389 µs after b."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, kernel("b", 111, 50)),
            launched(30, kernel("c", 550, 50), launch),
        ],
    )
    assert rows(run, "critical_path", "start_ns", "end_ns", "part", "basis")[3:5] == [
        (161_000, 162_000, "gap on the stream", "recorded"),
        (162_000, 550_000, part, basis),
    ]


def test_a_copy_that_starts_late_in_its_own_call(tmp_path: Path) -> None:
    """For 8 µs nothing but the call that submits the copy, and waits for it, is recorded."""
    down = copy("Memcpy DtoH (Device -> Pageable)", 218, 2, 8)
    run = opened(
        tmp_path,
        [launched(0, kernel("a", 10, 100)), launched(200, down, "cudaMemcpyAsync", 29)],
    )
    assert rows(run, "critical_path", "start_ns", "end_ns", "part", "basis")[1:3] == [
        (200_000, 210_000, "launch latency", "recorded"),
        (210_000, 218_000, "launched, not started", "guessed"),
    ]


def test_kernels_that_copy_are_copies(tmp_path: Path) -> None:
    """As the breakdown has them: the runtime's own kernel for a memset is not a compute."""
    blit = kernel("__amd_rocclr_fillBufferAligned", 10, 100)
    run = opened(tmp_path, [launched(0, blit), launched(20, kernel("b", 111, 50))])
    assert [part for _, _, part, _ in pieces(run)] == [
        "copy or memset",
        "gap on the stream",
        "compute",
    ]
