"""A server without work: its idle time is nobody's fault, and gains nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import sightline
from support.rules import answers, assert_silent
from support.traces import host, kernel, launched, opened
from synth_serving.kineto import write_client, write_trace
from synth_serving.server import Settings, serve

QUICK = Settings(schedule_ns=5_000, prepare_ns=3_000, sample_ns=2_000, graph_launch_ns=5_000)


def ask_seldom(seed: int) -> list[tuple[int, int, int]]:
    dice = random.Random(seed)
    return [(60_000_000 * n, dice.randint(16, 200), dice.randint(20, 60)) for n in range(12)]


@pytest.mark.parametrize("has_client", [True, False])
def test_a_server_that_is_asked_seldom_has_no_fault(has_client: bool, tmp_path: Path) -> None:
    served = serve(QUICK, ask_seldom(1))
    paths = [write_trace(served, tmp_path)]
    if has_client:
        paths.append(write_client(served, tmp_path))
    run = sightline.open(*map(str, paths))
    found = [f for f in run.answer().findings if not f["abstained"]]
    assert [f["rule"] for f in found if f["gain_ns"]] == []
    (remark,) = answers(run, "no-requests")
    # From the end of one answer's last kernel to the first of the next one's prompt.
    spans = [(s.kernels[0].start_ns, s.kernels[-1].end_ns) for s in served.steps]
    gaps = [b[0] - a[1] for a, b in pairwise(spans)]
    idle = sum(gap for gap in gaps if gap > 1_000_000)
    assert remark.cost_ns == pytest.approx(idle, rel=0.01)
    causes = dict(run.ask("idle").select("cause", "total_ns").rows())
    assert causes["no_request"] == pytest.approx(idle, rel=0.01)


def test_what_is_slow_beside_it_gains_no_more_than_the_rest(tmp_path: Path) -> None:
    served = serve(replace(QUICK, schedule_ns=400_000), ask_seldom(2))
    run = sightline.open(str(write_trace(served, tmp_path)))
    answer = run.answer()
    assert answer.findings[0]["rule"] == "scheduler-bubble"
    idle = run.ask("idle")
    there = idle["total_ns"].sum() - idle.filter(cause="no_request")["total_ns"].sum()
    assert all(f["gain_ns"] <= there for f in answer.findings if f["gain_ns"])


def test_a_server_at_work(tmp_path: Path) -> None:
    name = "execute_context_0(0)_generation_1(1)"
    steps = [
        [host("user_annotation", name, at, 5), *launched(at + 1, kernel("k", at + 10, 80))]
        for at in range(0, 400, 100)
    ]
    assert_silent(opened(tmp_path, steps), "no-requests")
