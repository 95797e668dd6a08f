"""start-up: what happens once before the steps that repeat, and is sold to none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import findings
from sightline.core.model.run import Run
from sightline.session import Session
from sightline.timeline.segments import select_repeating
from support.rules import answers, assert_silent
from support.traces import call, copy, kernel, launched, op, opened

PRODUCTS, STEP_US = 150, 60


def products(since: int) -> list[Any]:
    """Matrix products of 60 µs without a gap, launched well ahead."""
    return [
        e
        for n in range(PRODUCTS)
        for e in launched(since - 40 + 4 * n, kernel("gemm", since + STEP_US * n, STEP_US), dur=3)
    ]


def uploaded(folder: Path) -> Any:
    """12 ms of a pageable upload, and then 150 products."""
    upload = copy("Memcpy HtoD (Pageable -> Device)", 10, 12_000, 100_000_000)
    events = launched(0, upload, "cudaMemcpy", dur=12_020)
    return opened(folder, [*events, *products(12_080)])


def test_an_upload_before_the_products_gains_no_step_anything(tmp_path: Path) -> None:
    run = uploaded(tmp_path)
    found = [f for f in findings(run) if not f.abstained]
    assert [f.rule for f in found if f.gain_ns] == []
    first = found[0]
    assert (first.rule, first.title) == ("start-up", "Start-up")
    assert first.cost_ns == pytest.approx(12_000_000 + STEP_US * 1_000, rel=0.02)
    assert first.gain is None
    assert any("in copies, the largest: HtoD" in line for line in first.evidence)
    assert "happens once" in first.summary


def test_a_fill_before_the_products_is_named(tmp_path: Path) -> None:
    """12 ms of zeros, which nobody may need."""
    fill = kernel("Memset (Device)", 10, 12_000, cat="gpu_memset", bytes=2_400_000_000)
    events = launched(0, fill, "cudaMemset", dur=12_020)
    run = select_repeating(opened(tmp_path, [*events, *products(12_080)]))
    (found,) = answers(run, "start-up")
    assert any("in copies, the largest: fill, 2.400 GB in 12.00 ms" in e for e in found.evidence)
    assert "clear only what is read before it is written" in found.fix


def test_the_screen_says_what_its_figures_are_of(tmp_path: Path) -> None:
    answer = Session.of(uploaded(tmp_path)).answer()
    assert answer.window[0]["window"] == f"the {PRODUCTS} steps that repeat"
    assert answer.breakdown[0]["compute_pct"] > 99
    assert [row["segment"] for row in answer.segments] == ["start-up", "repeating"]
    assert "--window whole includes it" in str(answer.segments_note)


def test_a_window_that_was_chosen_stays(tmp_path: Path) -> None:
    run = uploaded(tmp_path).with_window("whole")
    assert_silent(run, "start-up")
    assert Session.of(run).answer().segments == []
    assert Session.of(run).answer().breakdown[0]["exposed_copy_pct"] > 50


def test_who_compiles_is_named(tmp_path: Path) -> None:
    """30 ms of loading code before the first product."""
    events = [
        *launched(0, kernel("init", 10, 5)),
        call("cuModuleLoadData", 40, 30_000),
        *products(30_100),
    ]
    run = select_repeating(opened(tmp_path, events))
    (found,) = answers(run, "start-up")
    assert "Module loading" in "\n".join((found.summary, *found.evidence))


def test_what_was_not_recorded_is_no_start_up(tmp_path: Path) -> None:
    """The first product waits 480 ms for an event of a stream that is not in the recording."""
    first = kernel("gemm", 480_030, STEP_US)
    events = [
        *launched(-20, kernel("init", 0, 5)),
        call("cudaStreamWaitEvent", 20, 2),
        *launched(30, first, dur=4),
        *products(480_100),
    ]
    found = [f for f in findings(opened(tmp_path, events)) if not f.abstained]
    assert [f.rule for f in found if f.gain_ns] == []
    assert found[0].title == "Start-up: not recorded"


def first_run(folder: Path, *, pauses: int, loading_us: int, work_us: int = 50) -> Run:
    """Kernels after pauses of 100 ms; one of them in a call that loads a module."""
    events, at = [], 0
    for number in range(pauses):
        events += launched(at, kernel(f"k{number}", at + 20, work_us), dur=5)
        at += 100_000
    events += [call("cuModuleLoadData", at - 50_000, loading_us)]
    events += launched(at, kernel("last", at + 20, work_us), dur=5)
    return opened(folder, events)


def test_a_first_run_is_said_to_be_one(tmp_path: Path) -> None:
    run = first_run(tmp_path, pauses=3, loading_us=49_900)
    first = next(f for f in findings(run) if not f.abstained)
    assert (first.rule, first.title) == ("start-up", "Nothing but a first run")
    assert "warm up" in (first.fix or "")
    assert first.gain is None
    rest = [f for f in findings(run) if f.gain_ns]
    assert all("first run" in f.evidence[-1] for f in rest)


def test_a_run_that_loads_nothing_is_no_first_run(tmp_path: Path) -> None:
    run = first_run(tmp_path, pauses=3, loading_us=900)
    assert "Nothing but a first run" not in {f.title for f in findings(run)}


def test_a_step_that_loads_each_of_its_kernels_is_a_first_run(tmp_path: Path) -> None:
    """Half of 43 pauses load code: no few of them are most of it, and none comes again."""
    events, at = [], 0
    for number in range(44):
        events += launched(at, kernel(f"k{number}", at + 20, 100), dur=5)
        if number % 2:
            events += [call("cuLibraryLoadData", at + 200, 9_000)]
        at += 10_000
    first = next(f for f in findings(opened(tmp_path, events)) if not f.abstained)
    assert (first.rule, first.title) == ("start-up", "Nothing but a first run")


def first_pass(folder: Path, *, takes: int) -> Run:
    """A pass of 40 layers of PyTorch's, of which the first ones take memory from the driver."""
    events = []
    for number in range(40):
        at = 1_000 * number
        events += [op("aten::conv2d", at, 900)]
        events += launched(at + 850, kernel(f"k{number}", at + 870, 20), dur=5)
        if number % (40 // max(takes, 1)) == 0 and number // (40 // max(takes, 1)) < takes:
            events += [call("cudaMalloc", at + 100, 80)]
    return opened(folder, events)


def test_a_pass_whose_memory_is_taken_as_it_runs_is_a_first_run(tmp_path: Path) -> None:
    first = next(f for f in findings(first_pass(tmp_path, takes=20)) if not f.abstained)
    assert (first.rule, first.title) == ("start-up", "Nothing but a first run")
    assert "19 calls in which PyTorch's allocator took memory" in first.evidence[0]


def test_a_pass_that_takes_memory_once_or_twice_is_no_first_run(tmp_path: Path) -> None:
    run = first_pass(tmp_path, takes=2)
    assert "Nothing but a first run" not in {f.title for f in findings(run)}


def test_a_few_operations_that_each_ran_once(tmp_path: Path) -> None:
    """Two kernels, and between them the host pins memory: nothing of it comes again."""
    events = [
        launched(0, kernel("a", 20, 3_000)),
        call("cudaHostAlloc", 4_000, 50_000),
        launched(55_000, kernel("b", 55_020, 5_000)),
    ]
    found = findings(opened(tmp_path, events))
    assert (found[0].rule, found[0].title) == ("start-up", "Nothing but a first run")
    assert {f.severity for f in found if not f.abstained} == {"info"}
