"""gpu-idle: the idle time that no other rule speaks for, by its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import call, kernel, launched, opened
from synth_nsys import Export

BEFORE = launched(-20, kernel("before", 0, 100))
AFTER = kernel("after", 1_000, 50)
AGAIN = kernel("before", 1_000, 50)  # a first launch would load its code


@pytest.mark.parametrize(
    ("cause", "after", "fix", "confidence"),
    [
        ("slow_launch", launched(40, AGAIN, dur=958), "before the loop", "medium"),
        ("not_started", launched(20, AFTER, dur=4), "a driver lock", "medium"),
        (
            "dependency_wait",
            [
                *launched(-9, kernel("elsewhere", 0, 990, device=1)),
                *[call("cudaStreamWaitEvent", 10, 2), *launched(20, AFTER, dur=4)],
            ],
            "overlap independent work",
            "medium",
        ),
    ],
)
def test_900_idle_microseconds(
    tmp_path: Path, cause: str, after: list[Any], fix: str, confidence: str
) -> None:
    """[0, 100) and [1000, 1050): what lies between is the bound on the gain."""
    found = assert_speaks(
        opened(tmp_path, [BEFORE, *after]),
        "gpu-idle",
        cost_ns=900_000,
        gain_ns=900_000,
        evidence=["1 gap of 900.0 µs"],
        fix=fix,
        severity="critical",
        confidence=confidence,
        title=f"GPU idle: {cause.replace('_', ' ')}",
    )
    assert found.where["time_ranges"] == [[100_000, 1_000_000]]


@pytest.mark.parametrize(
    "events",
    [
        [call("cudaStreamWaitEvent", 10, 2), *launched(20, AFTER, dur=4)],
        [call("cudaGraphLaunch", 10, 2), *launched(20, AFTER, dur=4)],
    ],
    ids=["an event of nothing recorded", "a graph without its kernels"],
)
def test_what_the_device_did_unrecorded_gains_nothing(tmp_path: Path, events: list[Any]) -> None:
    (found,) = answers(opened(tmp_path, [BEFORE, *events]), "gpu-idle")
    assert (found.title, found.severity) == ("GPU idle: not recorded", "info")
    assert (found.cost_ns, found.gain_ns, found.is_remark) == (900_000, None, True)
    assert "--cuda-graph-trace=node" in found.fix


def test_what_was_not_recorded_is_a_note(tmp_path: Path) -> None:
    (found,) = answers(opened(tmp_path, [*BEFORE, AFTER]), "gpu-idle")
    assert (found.title, found.severity, found.confidence) == ("GPU idle: unknown", "info", "low")
    assert "record CPU activity" in found.fix
    assert found.is_remark  # what the end of it would gain, nobody can say


@pytest.mark.parametrize(
    ("numbers", "says"), [((7, 8, 9), "does not show"), ((7, 8, 90), "select")]
)
def test_a_selection_of_kernels_is_said_to_be_one(
    tmp_path: Path, numbers: tuple[int, ...], says: str
) -> None:
    """Dispatches are numbered without gaps: of 7 to 90 three are in the file."""
    head = "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp"
    rows = [
        f"KERNEL_DISPATCH,Agent 1,1,5,{number},k,{at},{at + 1_000}"
        for number, at in zip(numbers, (1_000, 3_000, 9_000), strict=True)
    ]
    (tmp_path / "x_kernel_trace.csv").write_text("\n".join([head, *rows, ""]))
    (found,) = answers(sightline.open(str(tmp_path / "x_kernel_trace.csv")), "gpu-idle")
    assert says in found.summary


def test_what_comes_before_the_loop_is_start_up(tmp_path: Path) -> None:
    """Set-up of 100 µs, idle until 2,000 µs, then 16 equal iterations of 90 of 100 µs."""
    loop = [
        kernel(f"layer {part}", 2_000 + 100 * turn + 20 * part, 20 if part < 3 else 30)
        for turn in range(16)
        for part in range(4)
    ]
    (found,) = answers(opened(tmp_path, [kernel("set-up", 0, 100), *loop]), "gpu-idle")
    assert (found.title, found.cost_ns) == ("GPU idle: start-up", 1_900_000)
    assert "--window steady" in found.verify
    assert (found.severity, found.gain) == ("info", None)  # one pause: no iteration gains by it
    # Three iterations are no loop.
    few = opened(tmp_path, [kernel("set-up", 0, 100), *loop[:12]])
    assert [f.title for f in answers(few, "gpu-idle")] == ["GPU idle: unknown"]


@pytest.mark.parametrize(
    ("cause", "calls", "fix"),
    [
        ("in_graph", [call("cudaGraphLaunch", 0, 5, 1)], "on parallel branches"),
        ("micro_gap", [call("cudaLaunchKernel", 2 * n, 1, n) for n in range(1, 7)], "capture a"),
    ],
)
def test_gaps_between_kernels_that_are_not_short(
    tmp_path: Path, cause: str, calls: list[Any], fix: str
) -> None:
    """Six kernels of 20 µs, 4 µs apart: 20 of 140 µs; and one that only lengthens the window."""
    number = (lambda n: 1) if cause == "in_graph" else (lambda n: n)
    kernels = [kernel("k", 24 * n, 20, number(n)) for n in range(1, 7)]
    # 30 µs without a recorded launch bring all idle time over 15 % of the window.
    run = opened(tmp_path, [*calls, *kernels, kernel("stray", 194, 1)])
    found = {f.title: f for f in answers(run, "gpu-idle")}
    mine = found[f"GPU idle: {cause.replace('_', ' ')}"]
    assert (mine.cost_ns, mine.gain_ns, mine.confidence) == (20_000, 20_000, "high")
    assert "20.00 µs in all" in mine.evidence[0]
    assert fix in mine.fix
    assert found["GPU idle: unknown"].cost_ns == 30_000


def idle_for(folder: Path, idle: int) -> Run:
    """A window of 1,000 µs."""
    return opened(folder, [kernel("a", 0, 500), kernel("b", 500 + idle, 500 - idle)])


def test_up_to_15_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(idle_for(tmp_path / "a", 150), "gpu-idle")
    assert_speaks(
        idle_for(tmp_path / "b", 151),
        "gpu-idle",
        cost_ns=151_000,
        gain_ns=None,
        evidence=["1 gap of 151.0 µs"],
        fix="record CPU activity",
        severity="info",
    )


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), "gpu-idle")


def test_what_waits_while_the_gpu_draws_gains_nothing(tmp_path: Path) -> None:
    """Buffers go to OpenGL and back in the gap: the device draws, and that was not recorded."""
    drawing = [call("cudaGraphicsUnmapResources", 5, 2), call("cudaGraphicsMapResources", 10, 2)]
    run = opened(tmp_path, [BEFORE, *drawing, *launched(20, AFTER, dur=4)])
    (found,) = answers(run, "gpu-idle")
    assert (found.title, found.severity, found.gain_ns) == ("GPU idle: drawing", "info", None)
    assert "which is not in the recording" in found.summary


@pytest.mark.parametrize(("wait", "gains"), [(2_000, False), (400, True)])
def test_queued_work_that_waits_for_milliseconds(tmp_path: Path, wait: int, gains: bool) -> None:
    """Launched while the kernel before it ran: what holds it so long is not in the recording."""
    events, at = [], 0
    for _ in range(6):
        events += [
            launched(at, kernel("a", at + 10, 200)),
            launched(at + 50, kernel("b", at + 210 + wait, 50)),
        ]
        at += 210 + wait + 50
    (found,) = [
        f for f in answers(opened(tmp_path, events), "gpu-idle") if "not started" in f.title
    ]
    assert bool(found.gain) == gains
    assert (found.severity == "info") == (not gains)


def test_windows_hands_launches_over_together(tmp_path: Path) -> None:
    """Launched at 20 µs, started at 1,000, and nothing else runs."""
    export = Export("3.25.0")
    export.add("TARGET_INFO_SYSTEM_ENV", name="SoftwarePlatform", value="Windows")
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("before", 10_000, 100_000, 1)
    export.api("cudaLaunchKernel", 20_000, 24_000, 2)
    export.kernel("before", 1_000_000, 1_050_000, 2)
    run = sightline.open(str(export.write(tmp_path / "run.sqlite")))
    (found,) = answers(run, "gpu-idle")
    assert found.title == "GPU idle: Windows' driver"
    assert "WDDM" in found.summary and "cudaStreamQuery" in (found.fix or "")
