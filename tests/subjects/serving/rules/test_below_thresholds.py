"""Servers in which a cause costs too little for a word, and programs that serve nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.rules import assert_silent
from support.traces import host, kernel, opened
from synth_serving.kineto import write_client, write_trace
from synth_serving.server import Settings, serve

ASKED = [(0, 16 + n, 40 + n) for n in range(24)]
# What of a server is weak, and the rule that would speak if it were not.
WEAK = {
    "scheduler-bubble": Settings(schedule_ns=5_000, prepare_ns=3_000),
    "host-sampling": Settings(sample_ns=20_000),
    "eager-mode": Settings(graphs=(), launch_ns=3_000),
    "graph-miss": Settings(graphs=(1, 2, 4, 8), launch_ns=3_000),
    "padding-waste": Settings(graphs=tuple(range(1, 65)), pads=True, place_ns=100),
    "all-reduce-latency-bound": Settings(exchanges=24, exchange_ns=5_000),
    "prefill-stalls-decode": Settings(most_tokens=512, token_ns=1),
    "small-batch-decode": Settings(most_requests=24),
    "dequantization-overhead": Settings(unpack_ns=200),
    "kv-transfer-exposed": Settings(transfer_ns=100_000),
    "speculative-acceptance-low": Settings(place_ns=1, drafts=3, draft_ns=10_000, accepts=(2, 3)),
}


@pytest.mark.parametrize("rule", WEAK)
def test_too_little_for_a_word(rule: str, tmp_path: Path) -> None:
    served = serve(WEAK[rule], ASKED)
    engine = "atom" if rule == "padding-waste" else "vllm"
    paths = (write_trace(served, tmp_path, engine), write_client(served, tmp_path))
    assert_silent(sightline.open(*map(str, paths)), rule)


@pytest.mark.parametrize("rule", [*WEAK, "no-requests", "kv-cache-preemption", "requests-waiting"])
def test_programs_that_serve_nobody(rule: str, tmp_path: Path) -> None:
    events = [host("cpu_op", "aten::mm", 0, 90), kernel("gemm", 10, 50), kernel("gemm", 500, 50)]
    assert_silent(opened(tmp_path, events), rule)
