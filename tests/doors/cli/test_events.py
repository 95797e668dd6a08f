"""`sightline events`: what happened, one line an event, of whatever recording."""

from __future__ import annotations

import json

import polars as pl
import pytest

import sightline as sl
from sightline.answer.events import list_event_tables, list_events
from support.command import sightline
from support.pages import ROOT

JOB = ROOT / "examples" / "simulated-straggler"


def lines_of(*words: str) -> list[str]:
    outcome = sightline("events", *words)
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()


def test_a_timeline_says_who_waits_for_whom():
    head, *lines = lines_of(str(JOB), "--only", "device_ops", "--grep", "AllReduce")
    assert head.split() == ["time", "(ms)", "event", "duration", "notes"]
    first = lines[0]
    assert "kernel: ncclDevKernel_AllReduce_Sum_bf16_RING_LL" in first
    assert "waits 2.511 ms for rank 1 rank 2 gpu 2 stream 20 grid=24,1,1 block=544,1,1" in first
    # The rank that came last waits for nobody.
    assert not [line for line in lines if "rank 1 gpu 1" in line and "waits" in line]


def test_events_are_those_of_the_tables_in_order():
    run = sl.open(str(JOB))
    events = list_events(run)
    assert events.get_column("time_ns").is_sorted()
    assert events.height == sum(run.rows(name) for name in list_event_tables(run))
    device = run.table("device_ops")
    of_device = list_events(run, only=["device_ops"])
    assert of_device.height == device.height
    assert of_device["duration_ns"].sum() == (device["end_ns"] - device["start_ns"]).sum()


def test_between_and_limit_and_grep():
    run = sl.open(str(JOB))
    first = run.table("host_ops")["start_ns"].min()
    part = list_events(run, span=(first + 1_000_000, first + 2_000_000))
    assert part["time_ns"].is_between(first + 1_000_000, first + 1_999_999).all()
    shown = lines_of(str(JOB), "--between", "1ms..2ms")
    assert len(shown) == part.height + 1
    assert len(lines_of(str(JOB), "--limit", "3")) == 4
    found = list_events(run, pattern="(?i)gemm")
    assert found.height and found.filter(~pl.col("name").str.contains("(?i)gemm")).is_empty()


def test_events_as_data():
    rows = json.loads(sightline("events", JOB, "--only", "device_ops", "--json").out)
    assert {"time_ns", "duration_ns", "rank", "what", "name", "place", "remarks", "notes"} == set(
        rows[0]
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--grep", "("), "'(' is not a regular expression: unclosed group"),
        (("--only", "kernels"), "there are device_ops, device_ranges, host_ops"),
        (("--between", "2ms..1ms"), "ends before it starts"),
    ],
)
def test_what_cannot_be_asked(words, text):
    outcome = sightline("events", JOB, *words)
    assert outcome.code == 2 and text in outcome.said


def test_counters_stand_beside_what_ran_meanwhile(tmp_path):
    """A kernel of 10 ms, with samples of the GPU at 60 and 80 % while it ran, and others not."""
    samples = [("SM active", at, value) for at, value in ((1, 5), (4, 60), (9, 80), (15, 5))]
    events = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 2000, "dur": 10_000, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "kernel", "name": "add", "ts": 20_000, "dur": 10, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7}},
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    run = sl.open(str(tmp_path / "t.json"))
    begin = run.table("device_ops")["start_ns"].min() - 2_000_000
    rows = run.table("counters").clear()
    added = pl.DataFrame(
        {"metric": [m for m, *_ in samples], "device_id": [0] * 4, "rank": [0] * 4,
         "time_ns": [begin + at * 1_000_000 for _, at, _ in samples],
         "value": [float(v) for *_, v in samples]},
    )  # fmt: skip
    from sightline.answer import events as module

    frame = run.scan("device_ops").collect()

    class Sampled:
        def rows(self, name):
            return 4

        def scan(self, name):
            return pl.concat([rows, added], how="diagonal_relaxed").lazy()

    (notes,) = module._note_counters(Sampled(), frame)
    assert notes.to_list() == ["SM=70%", None]
