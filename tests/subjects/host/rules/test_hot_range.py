"""hot-range: recordings of a program's own ranges alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support import exports
from support.rules import answers, assert_silent
from support.traces import write_text
from synth_nsys import Export

RULE = "hot-range"
MS = 1_000_000


def ranged(folder: Path, ranges: list[tuple[str, int, int]], sleeps: list[tuple[int, int]]) -> Run:
    """NVTX ranges in ms, and calls of select within them, by Nsight Systems without CUDA."""
    export = Export()
    for name, start, end in ranges:
        export.range(name, start * MS, end * MS)
    for start, end in sleeps:
        export.add(
            "OSRT_API",
            start=start * MS,
            end=end * MS,
            eventClass=27,
            globalTid=exports.gtid(7, 7),
            correlationId=0,
            nameId=export.text("select"),
            returnValue=0,
            nestingLevel=0,
            callchainId=0,
        )
    return exports.opened(folder, export)


def test_a_program_that_sleeps(tmp_path: Path) -> None:
    run = ranged(tmp_path, [("f", 0, 100), ("loop", 1, 99)], [(2, 40), (41, 98)])
    (found,) = answers(run, RULE)
    assert found.title == "The program waits"
    assert found.summary == "The thread sleeps in select, in loop for 95.0 % of its 100.0 ms."
    assert found.cost is not None
    assert found.cost.amount == 95 * MS


def test_what_happens_once_and_what_comes_again(tmp_path: Path) -> None:
    ranges = [("load", 0, 60), *(("round", 60 + 10 * n, 69 + 10 * n) for n in range(4))]
    (found,) = answers(ranged(tmp_path / "a", ranges, []), RULE)
    assert found.summary == "The thread is in load for 60.6 % of its 99.00 ms, once."
    assert found.evidence[1] == "36.4 % round, 36.00 ms in 4, the longest 9.000 ms (25.0 %)"
    ranges = [("load", 0, 20), *(("round", 20 + 10 * n, 29 + 10 * n) for n in range(8))]
    (found,) = answers(ranged(tmp_path / "b", ranges, []), RULE)
    assert found.summary.startswith("The thread is in round for")
    assert found.summary.endswith("in 8 instances.")


def test_ranges_of_a_chrome_trace_that_its_author_wrote(tmp_path: Path) -> None:
    spans = [("Creating wrapper", 0, 4_000_000), ("op", 4_000_000, 300_000), ("op", 4_300_000, 10)]
    events = [
        {"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for name, ts, dur in spans
    ]
    run = _open(tmp_path, events)
    (found,) = answers(run, RULE)
    assert found.summary.startswith("The thread is in Creating wrapper for 93.0 % of its 4.300 s")


def _open(folder: Path, events: list[dict]) -> Run:
    import sightline

    return sightline.open(str(write_text(folder, json.dumps({"traceEvents": events}))))


@pytest.mark.parametrize(
    "ranges",
    [[("a", 0, 10), ("b", 900, 910)], []],
    ids=["most of the time in no range", "system calls alone"],
)
def test_silence(tmp_path: Path, ranges: list[tuple[str, int, int]]) -> None:
    assert_silent(ranged(tmp_path, ranges, [(0, 10)]), RULE)
