"""The time to the first token in parts: they sum to what the clients waited."""

from __future__ import annotations

import random
from pathlib import Path

import sightline
from synth_serving.causes import admit_few, prefill_long_prompts
from synth_serving.kineto import write_client, write_trace


def test_parts_sum_to_the_clients_times(tmp_path: Path) -> None:
    for make in (prefill_long_prompts, admit_few):
        case = make(random.Random(4))
        folder = tmp_path / make.__name__
        folder.mkdir()
        paths = (write_trace(case.served, folder), write_client(case.served, folder))
        run = sightline.open(*map(str, paths))
        parts = run.ask("first_token_time")
        waited = sum(r.token_ns[0] - r.arrival_ns for r in case.served.requests)
        assert abs(parts["total_ns"].sum() - waited) < 1_000 * len(case.served.requests)
        assert parts["total_ns"].sum() == run.table("served_requests")["ttft_ns"].sum()
        assert parts["requests"].unique().to_list() == [len(case.served.requests)]


def test_who_is_not_admitted_waits_for_others_steps(tmp_path: Path) -> None:
    case = admit_few(random.Random(2))
    paths = (write_trace(case.served, tmp_path), write_client(case.served, tmp_path))
    parts = sightline.open(*map(str, paths)).ask("first_token_time")
    assert parts.item(0, "part") == "queue and other steps"
    assert parts.item(0, "share_pct") > 50
