"""pipeline-bubble: exposed time of sends and receives."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import Event, collective, kernel, launched, op, opened

RULE = "pipeline-bubble"


def between(folder: Path, work: Event, *host: Event) -> Run:
    """A window of 1,000 µs: kernel, communication from 500 on, kernel, all queued."""
    end = work["ts"] + work["dur"]
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            *host,
            launched(20, work),
            launched(40, kernel("b", end, 1_010 - end)),
        ],
    )


def test_a_receive_of_400_us(tmp_path: Path) -> None:
    assert_speaks(
        between(tmp_path, collective(500, 400, "recv", floats=1_000)),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs", "4.000 kB"],
        fix="more micro-batches",
        severity="critical",
    )


def test_who_asked_for_it_says_what_a_send_and_receive_kernel_is(tmp_path: Path) -> None:
    """An all-to-all runs the same kernel."""
    work = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgs)", 500, 400)
    assert_silent(between(tmp_path / "a", work, op("c10d::alltoall_", 15, 15)), RULE)
    assert_silent(between(tmp_path / "b", work), RULE)
    assert_speaks(
        between(tmp_path / "c", work, op("c10d::send", 15, 15)),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs"],
        fix="more micro-batches",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(between(tmp_path / "a", collective(500, 49, "send")), RULE)
    assert_speaks(
        between(tmp_path / "b", collective(500, 50, "send")),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="more micro-batches",
    )


def test_a_window_without_communication(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [kernel("a", 10, 490)]), RULE)
