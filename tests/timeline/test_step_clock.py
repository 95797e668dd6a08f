"""How long a step takes: how far the host runs ahead of the device changes nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.timeline.step_clock import clock_steps, list_steady_steps, list_steps
from support.traces import Event, copy, host, kernel, launch, opened, step


def _run_ahead(host_us: int, device_us: int, count: int = 6) -> list[Event]:
    """A host that needs host_us for a step, and a device that needs device_us, one kernel each."""
    made, free = [], 0
    for number in range(count):
        called = host_us * number
        free = max(free, called + 5) + device_us
        made += [
            step(number, called, host_us),
            launch(called, 2, number + 1),
            kernel("k", free - device_us, device_us, number + 1),
        ]
    return made


@pytest.mark.parametrize(("host_us", "device_us"), [(10, 100), (90, 100), (100, 80), (100, 1)])
def test_the_slower_of_host_and_device_sets_the_step(
    tmp_path: Path, host_us: int, device_us: int
) -> None:
    steps = list_steady_steps(opened(tmp_path, _run_ahead(host_us, device_us)))
    length = steps.get_column("end_ns") - steps.get_column("start_ns")
    assert set(length) == {1000 * max(host_us, device_us)}


def test_a_copy_on_a_stream_of_its_own_holds_no_step(tmp_path: Path) -> None:
    """The second step saves a checkpoint, 250 µs on a side stream."""
    events = _run_ahead(10, 100)
    saved = copy("Memcpy DtoH (Device -> Pinned)", 120, 250, 8, correlation=99, stream=9)
    events += [launch(12, 1, 99), saved]
    steps = list_steps(opened(tmp_path, events))
    ends = steps.get_column("end_ns").diff().drop_nulls()
    assert set(ends) == {100_000}


def test_work_of_before_is_not_the_first_step(tmp_path: Path) -> None:
    """A kernel of 300 µs was launched before the first mark: that step begins where it ends."""
    before = [launch(0, 2, 50), kernel("before", 5, 300, 50)]
    later = [
        {**e, "ts": e["ts"] + (300 if e["cat"] == "kernel" else 10)} for e in _run_ahead(10, 100)
    ]
    first = list_steps(opened(tmp_path, before + later)).row(0, named=True)
    assert first["end_ns"] - first["start_ns"] == 100_000


def test_whole_periods_only(tmp_path: Path) -> None:
    """Three micro-steps to an optimizer's step: of ten steps, three times three are taken."""
    events: list[Event] = []
    for number in range(11):
        begin = 100 * number
        events.append(step(number, begin, 100))
        for n in range(4 if number % 3 == 2 else 2):
            corr = 10 * number + n + 1
            events += [launch(begin + n, 1, corr), kernel("k", begin + 10 * n + 5, 5, corr)]
    assert list_steady_steps(opened(tmp_path, events)).height == 9


def test_steps_that_warm_up_are_left_out(tmp_path: Path) -> None:
    """The first three of eight take 900, 300 and 200 µs, the others 100."""
    events, at = [], 0
    for number, took in enumerate([900, 300, 200, 100, 101, 99, 100, 100]):
        events += [step(number, at, took), launch(at, 2, number + 1)]
        events.append(kernel("k", at + 10, 20, number + 1))
        at += took
    steady = list_steady_steps(opened(tmp_path, events))
    assert (steady.item(0, "step"), steady.height) == ("ProfilerStep#3", 5)


def test_unmarked_loops_have_the_same_clock(tmp_path: Path) -> None:
    """Ranges of the optimizer end the steps of a host that runs ahead of its device."""
    events = [e for e in _run_ahead(10, 100) if not e["name"].startswith("ProfilerStep")]
    name = "Optimizer.step#SGD.step"
    events += [host("user_annotation", name, 10 * number + 5, 4) for number in range(6)]
    steps = list_steady_steps(opened(tmp_path, events))
    assert set(steps.get_column("end_ns") - steps.get_column("start_ns")) == {100_000}


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 700), st.integers(0, 90), st.integers(0, 2)), max_size=30),
)
def test_steps_sum_to_the_time_between_their_ends(
    marks: list[tuple[int, int]], work: list[tuple[int, int, int]]
) -> None:
    """Whatever was launched whenever: steps follow one another without a gap, in order."""
    at, spans = 0, []
    for length, pause in marks:
        spans.append((at, at + length))
        at += length + pause
    steps = pl.DataFrame(spans, schema=["start_ns", "end_ns"], orient="row")
    launched = pl.DataFrame(
        [(0, stream, called + took, called) for called, took, stream in work],
        schema=dict.fromkeys(["device_id", "stream_id", "end_ns", "called_ns"], pl.Int64),
        orient="row",
    )
    clocked = clock_steps(steps, launched)
    start, end = clocked.get_column("start_ns"), clocked.get_column("end_ns")
    assert start[1:].to_list() == end[:-1].to_list()
    assert (end > start).all()
    assert end[-1] >= spans[-1][1]
