"""A thread sleeps until a host function behind its work wakes it, as under XLA: it synchronizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from sightline.timeline.callback_waits import list_callback_waits
from support.ask import rows
from support.exports import opened
from support.rules import answers
from synth_nsys import Export, gtid

US = 1_000


def steps(folder: Path, *, function: str = "cuLaunchHostFunc", launches_again: bool = False) -> Run:
    """Steps of 1 ms: the host launches 300 µs of work in 200 µs and sleeps until 400 µs behind it.

    `launches_again`: behind the host function, on another stream.
    """
    e = Export()
    for i in range(6):
        at = 1_000 * US * i
        e.range(f"step {i}", at, at + 950 * US)
        e.api("cuLaunchKernel", at + 100 * US, at + 110 * US, 2 * i + 1)
        e.kernel("gemm", at + 200 * US, at + 500 * US, 2 * i + 1)
        e.api(function, at + 150 * US, at + 155 * US, 100 + i)
        if launches_again:
            e.api("cuLaunchKernel", at + 160 * US, at + 170 * US, 2 * i + 2)
            e.kernel("relu", at + 210 * US, at + 220 * US, 2 * i + 2, stream=8)
        futex = {"eventClass": 27, "globalTid": gtid(7, 7), "nameId": e.text("futex")}
        e.add("OSRT_API", start=at + 180 * US, end=at + 900 * US, **futex)
    return opened(folder, e)


def test_it_waits_for_what_it_launched_before_the_function(tmp_path: Path) -> None:
    """Without the sleep a step takes the device's 300 µs: five are 700 shorter."""
    run = steps(tmp_path)
    waits = list_callback_waits(run)
    ends = waits.get_column("target_end") - waits.get_column("start_ns")
    assert ends.to_list() == [320 * US] * 6
    assert {cause for (cause,) in rows(run, "idle_gaps", "cause")} == {"host_sync"}
    (found,) = answers(run, "sync-in-step")
    assert "5 × futex  in  step *" in found.evidence
    assert found.gain_ns is not None
    assert 5 * 600 * US <= found.gain_ns <= 5 * 700 * US


@pytest.mark.parametrize(
    ("function", "again"), [("cuEventRecord", False), ("cuLaunchHostFunc", True)]
)
def test_nothing_says_what_it_sleeps_for(tmp_path: Path, function: str, again: bool) -> None:
    """No function is called back, or work was launched behind it."""
    assert list_callback_waits(steps(tmp_path, function=function, launches_again=again)).is_empty()
