"""Few requests decode together while others wait: what a replay of the client's requests gains."""

from __future__ import annotations

import json
from pathlib import Path

import sightline
from support.rules import answers
from support.traces import host, launched, write
from support.traces import kernel as make_kernel


def test_no_more_is_gained_than_the_steps_take(tmp_path: Path) -> None:
    """The largest batch takes far more than a line through the others says."""
    events, at = [], 0
    for requests, us in [(1, 5), *[(4, 20)] * 5, (8, 163)]:
        events += [host("user_annotation", f"execute_context_0(0)_generation_{requests}"
                        f"({requests})", at, 4)]  # fmt: skip
        events += launched(at + 1, make_kernel("k", at + 3, us))
        at += us + 10
    # Twelve clients that all wait from the begin to the end, and get a token or two.
    asked = [
        {"start": n / 1e6, "ttft": 1e-6, "end": 1e-3, "n": 2, "itl": [1e-6]} for n in range(12)
    ]
    client = tmp_path / "client.json"
    client.write_text(json.dumps(asked))
    run = sightline.open(str(write(tmp_path, events)), str(client))
    for found in answers(run, "small-batch-decode"):
        assert (found.gain_ns or 0) <= (found.cost_ns or 0) <= 273_000
