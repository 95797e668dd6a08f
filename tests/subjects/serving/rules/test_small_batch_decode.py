"""Few requests decode together while others wait: what a replay of the client's requests gains."""

from __future__ import annotations

import json
from pathlib import Path

import sightline
from support.rules import answers
from support.traces import host, launched, write
from support.traces import kernel as make_kernel


def list_events(steps: list[tuple[int, int]]) -> list[object]:
    """Steps of decode, one after the other: of so many requests, so many µs long."""
    events, at = [], 0
    for requests, us in steps:
        text = f"execute_context_0(0)_generation_{requests}({requests})"
        events += [host("user_annotation", text, at, 4)]
        events += launched(at + 1, make_kernel("k", at + 3, us))
        at += us + 10
    return events


def test_no_more_is_gained_than_the_steps_take(tmp_path: Path) -> None:
    """The largest batch takes far more than a line through the others says."""
    events = list_events([(1, 5), *[(4, 20)] * 5, (8, 163)])
    # Twelve clients that all wait from the begin to the end, and get a token or two.
    asked = [
        {"start": n / 1e6, "ttft": 1e-6, "end": 1e-3, "n": 2, "itl": [1e-6]} for n in range(12)
    ]
    client = tmp_path / "client.json"
    client.write_text(json.dumps(asked))
    run = sightline.open(str(write(tmp_path, events)), str(client))
    for found in answers(run, "small-batch-decode"):
        assert (found.gain_ns or 0) <= (found.cost_ns or 0) <= 273_000


def test_nothing_is_gained_where_nobody_waits(tmp_path: Path) -> None:
    """Four clients of four are in each step; that some steps take longer is no small batch."""
    events = list_events([(4, 20 if n % 3 else 90) for n in range(30)])
    asked = [{"start": 0.0, "ttft": 1e-6, "end": 2e-3, "n": 31, "itl": [4e-5] * 30}] * 4
    client = tmp_path / "client.json"
    client.write_text(json.dumps(asked))
    run = sightline.open(str(write(tmp_path, events)), str(client))
    assert not [found for found in answers(run, "small-batch-decode") if found.gain_ns]
