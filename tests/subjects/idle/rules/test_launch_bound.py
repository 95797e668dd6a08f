"""launch-bound: the device is done with each kernel before the next one is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from support.traces import Event, call, kernel, launched, op, opened, step


def paced(folder: Path, length: int, *more: Event, kernels: int = 10) -> Run:
    """A launch every 50 µs; each kernel starts 10 µs after its launch began."""
    work = [launched(50 * i, kernel("k", 50 * i + 10, length)) for i in range(kernels)]
    return opened(folder, [*more, *work])


def test_ten_kernels_of_10_us_launched_every_50(tmp_path: Path) -> None:
    """Nine gaps of 40 µs in a window of 460. If launching cost nothing, 1 µs would be left between
    two kernels: ten of 10 µs and nine pauses are 109 µs.
    """
    found = assert_speaks(
        paced(tmp_path, 10),
        "launch-bound",
        cost_ns=360_000,
        gain_ns=351_000,
        evidence=["cudaLaunchKernel 100"],
        fix="CUDA graph",
        severity="critical",
        confidence="medium",
    )
    for figure in ("10.00 µs", "50.00 µs", "10 of 10"):
        assert figure in found.summary


def test_late_for_under_15_percent_of_the_window(tmp_path: Path) -> None:
    """42 µs of every 50: 72 of 492 µs late, 14.6 %. With 41 µs it is 81 of 491, 16.5 %."""
    assert_silent(paced(tmp_path / "a", 42), "launch-bound")
    assert_speaks(
        paced(tmp_path / "b", 41),
        "launch-bound",
        cost_ns=81_000,
        gain_ns=72_000,
        evidence=["cudaLaunchKernel 100"],
        fix="CUDA graph",
        severity="warning",
    )


def test_a_queue_that_is_full_of_work(tmp_path: Path) -> None:
    work = [launched(10 * i, kernel("k", 10 + 50 * i, 45)) for i in range(10)]
    assert_silent(opened(tmp_path, work), "launch-bound")


def test_without_launch_calls_it_is_not_judged(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("k", 50 * i, 10) for i in range(10)])
    assert_abstains(run, "launch-bound", "no launch calls were recorded")


@pytest.mark.parametrize(
    ("first_ends", "said"), [(250, "all 2 steps launch 5"), (300, "steps launch 4 to 6")]
)
def test_whether_the_steps_launch_the_same(tmp_path: Path, first_ends: int, said: str) -> None:
    steps = step(1, 0, first_ends), step(2, first_ends, 500 - first_ends)
    found = assert_speaks(
        paced(tmp_path, 10, *steps),
        "launch-bound",
        cost_ns=360_000,
        gain_ns=351_000,
        evidence=[],
        fix="CUDA graph",
    )
    assert found.cause is not None
    assert said in found.cause


def test_host_time_is_that_of_the_window(tmp_path: Path) -> None:
    """A call before the first kernel, in an operator that reaches into the window.

    In the window: nine launches of 5 µs, the last 5 µs of aten::addmm, and none of cudaFree.
    """
    early = op("aten::addmm", -500, 515), call("cudaFree", -490, 400)
    found = assert_speaks(
        paced(tmp_path, 10, *early),
        "launch-bound",
        cost_ns=360_000,
        gain_ns=351_000,
        evidence=["cudaLaunchKernel 90", "aten::addmm 10"],
        fix="CUDA graph",
    )
    assert not any("cudaFree" in line for line in found.evidence)


def away(folder: Path, *between: Event) -> Run:
    """20 launches 50 µs apart, over a millisecond in which none is, and 20 more."""
    starts = [50 * i for i in range(20)] + [2000 + 50 * i for i in range(20)]
    return opened(folder, [*between, *(launched(t, kernel("k", t + 10, 10)) for t in starts)])


def test_time_that_launches_nothing_is_not_gained(tmp_path: Path) -> None:
    """38 gaps of 40 µs are the pace, and the one of 1.04 ms is none: no graph replays that.

    Without the pace all of the first 20 are launched at once, 10 µs before the first kernel. The
    host is back 1,045 µs later, as recorded, its kernel begins 10 µs behind that, and 20 kernels
    with 1 µs between them take 219 µs: 1,264 of 2,960 µs are left.
    """
    assert_speaks(
        away(tmp_path),
        "launch-bound",
        cost_ns=1_696_000,
        gain_ns=1_696_000,
        evidence=["cudaLaunchKernel 100"],
        fix="CUDA graph",
    )


def test_calls_between_do_not_make_it_pace(tmp_path: Path) -> None:
    """The same, while the host asks every 100 µs for an event: that launches nothing either."""
    asked = [call("cudaEventQuery", 1000 + 100 * i, 2) for i in range(10)]
    (found,) = answers(away(tmp_path, *asked), "launch-bound")
    assert found.gain_ns == 1_696_000


def test_clocks_that_drift_within_a_step_explain_nothing(tmp_path: Path) -> None:
    """A launch every 100 µs; five kernels 90 µs behind theirs, the next five 200 µs before it.

    Most of the idle time is delays that no dependency explains, and the replay keeps them: the lost
    time is the bound.
    """
    events, end = [], 0
    for number in range(40):
        at = 1_000 + 100 * number
        start = max(at + (-200 if number // 5 % 2 else 90), end + 2)
        end = start + 5
        events += launched(at, kernel("k", start, 5))
    (found,) = answers(opened(tmp_path, events), "launch-bound")
    assert found.gain_ns == found.cost_ns
    assert found.gain_ns > 1_000_000
    assert (found.method or "").startswith("bound from the timeline")
