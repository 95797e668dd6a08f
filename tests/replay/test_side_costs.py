"""Two recordings of one program, one of them on a slower host: what is left is the program's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sightline.core.model.run import Run
from sightline.replay.unrecorded import remove_recorders
from support.traces import Event, kernel, launch, op, opened, step

STEPS = 8
NAMES = ("aten::mul", "aten::add", "aten::to", "aten::sum", "aten::div", "aten::exp")
THINK_US, CALL_US = 9.0, 4.0


def _record(folder: Path, *, pace: float, launches: int, seed: int = 1) -> Run:
    """A loop of operators that each launch a kernel of 1 µs, on a host that is `pace` as slow."""
    folder.mkdir()
    noise = random.Random(seed)
    events: list[Event] = []
    at, corr = 0.0, 0
    for number in range(STEPS):
        begin = at
        for n in range(launches):
            slow = pace * (1 + noise.expovariate(20))
            corr += 1
            called = at + THINK_US * slow
            events.append(launch(called, CALL_US * slow, corr))
            events.append(op(NAMES[n % len(NAMES)], at, (THINK_US + CALL_US + 1) * slow))
            at = called + (CALL_US + 2) * slow
            events.append(kernel("k", at, 1, corr))
        events.append(step(number, begin, at - begin))
    return opened(folder, events)


@pytest.mark.parametrize("slow", ["before", "after"])
def test_a_slower_host_is_not_the_program_s(tmp_path: Path, slow: str) -> None:
    """Of 120 launches a step 90 are left: a quarter less, whichever side ran on a slow core."""
    paces = {"before": 1.0, "after": 1.0} | {slow: 1.9}
    runs = [
        _record(tmp_path / side, pace=paces[side], launches=n, seed=n)
        for side, n in (("before", 120), ("after", 90))
    ]
    known = dict(zip(paces, remove_recorders(runs), strict=True))
    bare = known[slow]
    assert bare is not None
    # What ran at the fastest pace is as it was recorded, but for its own noise.
    other = next(side for side in paces if side != slow)
    assert known[other] is None
    fast = 1.05 * (THINK_US + CALL_US + 2) * {"before": 120, "after": 90}[other] * 1000
    steps = {slow: bare.ns, other: fast}
    assert steps["after"] / steps["before"] == pytest.approx(0.75, abs=0.04)
    assert bare.recorded_ns / bare.ns > 1.5


def test_a_recording_beside_itself_is_no_change(tmp_path: Path) -> None:
    run = _record(tmp_path / "one", pace=1.5, launches=100)
    first, second = remove_recorders([run, run])
    assert (first and first.ns) == (second and second.ns)
