"""What lies in one of many steps is not part of what each step loses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline import findings
from sightline.diagnosis.one_offs import ONCE
from support.traces import call, copy, kernel, launched, opened, step

STEPS, STEP_US = 10, 1_000
UPLOAD = "Memcpy HtoD (Pageable -> Device)"


def loop(pause_in: int | None, *, waits: bool) -> list[Any]:
    """Steps of a kernel of 860 µs; in one of them the host does something else for 2 ms."""
    events: list[Any] = []
    at = 0
    for n in range(STEPS):
        begin = at
        if n == pause_in:
            at += 2_000
        events += launched(at + 20, kernel("gemm", at + 40, 860))
        if waits:
            events += [call("cudaDeviceSynchronize", at + 30, 880)]
        at += STEP_US
        events += [step(n, begin, at - begin)]
    return events


def test_a_pause_in_one_step_stands_behind_what_each_step_loses(tmp_path: Path) -> None:
    found = [f for f in findings(opened(tmp_path, loop(5, waits=True))) if f.gain_ns]
    once = [f for f in found if ONCE in f.where]
    assert len(once) == 1
    assert found[0].rule == "sync-in-step"
    assert found[-1] is once[0] or ONCE in found[-1].where
    assert any("one of 10 steps: it happens once" in line for line in once[0].evidence)


def test_what_comes_in_each_step_is_not_once(tmp_path: Path) -> None:
    found = findings(opened(tmp_path, loop(None, waits=True)))
    assert [f.rule for f in found if ONCE in f.where] == []


def test_between_two_cases_of_a_test_the_host_may_compute_what_it_compares_with(
    tmp_path: Path,
) -> None:
    """Two copies and two kernels, 30 ms between the cases: the copies are what can be changed."""
    events = [
        *launched(0, copy(UPLOAD, 10, 9_000, 45_000_000), "cudaMemcpyAsync", 9_015),
        *launched(9_020, kernel("largest", 9_030, 2_000)),
        *launched(41_000, copy(UPLOAD, 41_010, 9_000, 45_000_000), "cudaMemcpyAsync", 9_015),
        *launched(50_020, kernel("largest", 50_030, 2_000)),
    ]
    found = [f for f in findings(opened(tmp_path, events)) if f.gain_ns]
    assert found[0].rule == "pageable-copies"
    late = next(f for f in found if f.rule == "host-late")
    assert late.where[ONCE] == "each operation once"
    assert late.gain_ns > found[0].gain_ns
