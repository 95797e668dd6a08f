"""Rows of threads' states in the timeline: their order, colours, and who woke whom."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.span import find_one_clock
from sightline.views.html.timeline.states import FIRST_CLASS
from sightline.views.html.timeline.tracks import CLASSES, STATE_CLASSES, make_timeline
from support.kernel_traces import RUNNABLE, SLEEPS, KernelTrace


def test_states_and_wake_ups(tmp_path: Path) -> None:
    """7 sleeps from 10 to 30, when 8 wakes it; it runs again from 40 on."""
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, 7).switch(0, 1, 0, RUNNABLE, 8)
    trace.switch(10, 0, 7, SLEEPS, 0).wake(30, 1, 7).switch(40, 0, 0, RUNNABLE, 7)
    trace.switch(60, 0, 7, SLEEPS, 0).switch(60, 1, 8, SLEEPS, 0)
    run = sightline.open(str(trace.write(tmp_path / "kernel", offset=0)))
    line = make_timeline(run, find_one_clock(run))
    assert [track["label"] for track in line.tracks] == ["t7 7", "t8 8"]
    classes = [*CLASSES, *STATE_CLASSES]
    assert classes[FIRST_CLASS] == "running"
    events = [
        (row["track"], row["start_ns"], row["end_ns"], classes[row["class"]], row["link"])
        for row in line.events.filter(line.events["start_ns"] < 60).iter_rows(named=True)
    ]
    # A link is the place of the waker's event, plus 1: 8's only one is the sixth.
    assert events == [
        (0, 0, 10, "running", 0),
        (0, 10, 30, "asleep", 0),
        (0, 30, 40, "waits for a CPU", 6),
        (0, 40, 60, "running", 0),
        (1, 0, 60, "running", 0),
    ]


def test_a_run_without_a_trace_of_the_system_has_no_such_rows(tmp_path: Path) -> None:
    from support import traces

    run = traces.opened(tmp_path, traces.launched(1, traces.kernel("k", 5, 3)))
    groups = {track["group"] for track in make_timeline(run, find_one_clock(run)).tracks}
    assert groups == {"rank 0 · GPU 0", "rank 0 · CPU"}
