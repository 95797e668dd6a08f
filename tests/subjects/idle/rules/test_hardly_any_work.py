"""hardly-any-work: a program that ended within its set-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import findings
from support.rules import answers, assert_silent
from support.traces import call, copy, kernel, launch, launched, opened

RULE = "hardly-any-work"


def test_one_memset_is_no_window_to_judge(tmp_path: Path) -> None:
    fill = kernel("Memset (Device)", 20, 2, cat="gpu_memset")
    run = opened(tmp_path, [*launched(0, fill, "cudaMemset"), call("cudaFree", 400_000, 10)])
    (found,) = answers(run, RULE)
    assert "No kernel ran, and 1 copy or memset" in found.summary
    assert found.evidence == ("2 calls in 400.0 ms, the last one cudaFree",)
    said = [f for f in findings(run) if not f.abstained]
    assert [f.rule for f in said] == [RULE]


def test_one_kernel_of_two_microseconds_is_too_little(tmp_path: Path) -> None:
    run = opened(tmp_path, launched(0, kernel("k", 20, 2)))
    (found,) = answers(run, RULE)
    assert "1 kernel took 2.000 µs in all" in found.summary
    assert answers(run, "device-busy") == answers(run, "dominating-kernel") == []


def test_a_long_kernel_or_ten_copies_are_work(tmp_path: Path) -> None:
    one = launched(0, kernel("k", 20, 600))
    assert_silent(opened(tmp_path / "a", one), RULE)
    copies = [launched(30 * n, copy("Memcpy HtoD", 30 * n + 9, 2, 8)) for n in range(10)]
    assert_silent(opened(tmp_path / "b", copies), RULE)


def test_launches_of_which_nothing_is_heard(tmp_path: Path) -> None:
    """Two copies and 20 launches without a kernel: no idle time has a gain."""
    events = [launched(0, copy("Memcpy HtoD", 9, 2, 8), "cudaMemcpy")]
    events += [launch(20 + 10 * n, 5, 900 + n) for n in range(20)]
    events += [launched(100_000, copy("Memcpy DtoH", 100_009, 2, 8), "cudaMemcpy")]
    run = opened(tmp_path, events)
    said = [f for f in findings(run) if not f.abstained]
    assert said[0].rule == RULE
    assert "though 20 calls launched one" in said[0].summary
    assert "cudaGetLastError" in said[0].fix
    assert not any(f.gain_ns for f in said)


def test_weights_that_are_loaded_and_never_used(tmp_path: Path) -> None:
    """Forty copies of 5 µs, 1 ms from one to the next, and no call that launches a kernel."""
    up = "Memcpy HtoD (Pinned -> Device)"
    events = [
        launched(1_000 * i, copy(up, 1_000 * i + 20, 5, 1 << 20), api="cudaMemcpyAsync")
        for i in range(40)
    ]
    first = findings(opened(tmp_path, events))[0]
    assert first.rule == RULE
    assert first.summary.startswith("No kernel ran, and 40 copies and memsets")


def test_kernels_of_which_each_ran_once(tmp_path: Path) -> None:
    events = [launched(50 * i, kernel(f"k{i}", 50 * i + 20, 3)) for i in range(20)]
    first = findings(opened(tmp_path, events))[0]
    assert first.rule == RULE
    assert first.summary.startswith("20 kernels took 60.00 µs in all: too little to judge")


@pytest.mark.parametrize(("program", "little"), [(50_000, True), (400, False)])
def test_kernels_that_are_over_in_a_moment(tmp_path: Path, program: int, little: bool) -> None:
    """Sixteen of 4 µs, after a set-up of 50 ms; of a program as short they may be a step."""
    events = [launched(program + 5 * n, kernel("k", program + 5 * n + 3, 4)) for n in range(16)]
    run = opened(tmp_path, [call("cudaStreamCreate", 0, program - 10), *events])
    first = next(f for f in findings(run) if not f.abstained)
    assert (first.rule == RULE) is little
    if little:
        assert first.summary.startswith("16 kernels took 64.00 µs in all: too little to judge")
        assert not any(f.gain_ns for f in findings(run))


def test_a_pause_before_a_kernel_that_never_ran_is_its_first_use(tmp_path: Path) -> None:
    """300 ms before the second of three kernels: it is loaded, or built."""
    at = {"fill": 0, "gemm": 300_000, "add": 300_050}
    events = [launched(t, kernel(name, t + 20, 30)) for name, t in at.items()]
    (found,) = answers(opened(tmp_path / "first", events), RULE)
    told = "300.0 ms (100.0 %) are one pause, before gemm runs for the first time"
    assert told in found.evidence
    assert found.cause == "kernels are loaded, and some are compiled, when they are first used"
    again = [*events, launched(900_000, kernel("gemm", 900_020, 30))]
    (found,) = answers(opened(tmp_path / "again", again), RULE)
    assert not any("first time" in line for line in found.evidence)


def test_one_pause_between_two_set_ups(tmp_path: Path) -> None:
    """Copies of 1.6 ms and six kernels that each ran twice at most, around 2 s of building."""
    events = []
    for at in (0, 2_000_000):
        events += [launched(at + 100 * i, copy("Memcpy HtoD", at + 100 * i + 9, 40, 1 << 18))
                   for i in range(20)]  # fmt: skip
        names = ("initA", "initB", "initC")
        events += [launched(at + 3_000 + 100 * i, kernel(k, at + 3_009 + 100 * i, 10))
                   for i, k in enumerate(names)]  # fmt: skip
    (found,) = answers(opened(tmp_path, [e for each in events for e in each]), RULE)
    assert found.summary.startswith("6 kernels and 40 copies and memsets took 1.660 ms")
