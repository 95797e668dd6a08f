"""Recordings of real inference servers: their steps against what their client counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run

pytestmark = pytest.mark.corpus
VLLM = "serving/own_vllm_cpu"
TRACELENS = "kineto/AMD-AGI__TraceLens/inference"


@pytest.fixture(scope="module")
def vllm(corpus: Path) -> Run:
    return sightline.open(
        str(corpus / f"{VLLM}/rank0.pt.trace.json.gz"),
        str(corpus / f"{VLLM}/async_llm.pt.trace.json.gz"),
    )


def test_tokens_of_a_real_server_are_its_clients(vllm: Run, corpus: Path) -> None:
    steps = vllm.ask("engine_steps")
    by_phase = {
        phase: (n, prefill, decode)
        for phase, n, prefill, decode in steps.group_by("phase")
        .agg(pl.len(), pl.col("prefill_tokens", "decode_tokens").sum())
        .rows()
    }
    assert by_phase == {
        "prefill": (7, 455, 0),
        "decode": (236, 0, 355),
        "mixed": (7, 439, 15),
        "empty": (7, 0, 0),
    }
    client = json.loads((corpus / f"{VLLM}/client.json").read_text())
    first_tokens = len(client)  # a prompt's last step makes its first token
    assert steps["decode_tokens"].sum() + first_tokens == sum(each["n"] for each in client)


def test_a_real_servers_waiting_is_of_no_step(vllm: Run) -> None:
    steps = vllm.ask("engine_steps")
    between = steps.select("no_request_ns", "scheduler_ns", "unclear_ns").sum().row(0)
    assert sum(between) == steps["gap_ns"].sum() == 1_204_767_420
    assert between[2] == 0
    iterations = vllm.ask("iterations")
    assert iterations["duration_ns"].sum() == steps["duration_ns"].sum()
    breakdown = dict(vllm.ask("host_breakdown").select("part", "own_ns").rows())
    assert breakdown["between engine steps"] > 2 * breakdown["Python"]


def test_a_real_servers_report_has_no_false_note(vllm: Run) -> None:
    answer = vllm.answer()
    kinds = {limit["kind"] for limit in answer.limits}
    assert not kinds & {"no_steps", "rank_by_order"}
    assert "host-python" not in [finding["rule"] for finding in answer.findings]


@pytest.mark.parametrize(
    ("path", "phases", "requests", "graph"),
    [
        (f"{TRACELENS}/sglang_decode/sglang_Qwen3-8B_decode.json.gz", ["decode"], 32, 544),
        (f"{TRACELENS}/vllm_decode_full/graph_execution.json.gz", ["decode"], 32, 421),
        (f"{TRACELENS}/vllm_prefilldecode_piecewise/graph_execution.json.gz", ["mixed"], 37, 361),
    ],
)
def test_phase_of_recordings_of_one_step(
    path: str, phases: list[str], requests: int, graph: int, corpus: Path
) -> None:
    steps = sightline.open(str(corpus / path)).ask("engine_steps")
    assert steps["phase"].to_list() == phases
    assert steps["decode_requests"].to_list() == [requests]
    assert steps["graph_kernels"].to_list() == [graph]


def test_ten_tokens_of_32_requests_without_an_annotation(corpus: Path) -> None:
    """Prompts of 1,000 tokens, ten tokens each: one prefill, and nine steps more."""
    path = (
        "kineto/hyukjlee__traceMap/trace_file/examples/1_h100_1000isl_10osl_32con.pt.trace.json.gz"
    )
    steps = sightline.open(str(corpus / path)).ask("engine_steps")
    computed: Callable[[str], int] = steps["phase"].to_list().count
    assert (computed("prefill"), computed("decode")) == (1, 9)
    assert set(steps["confidence"]) == {"medium"}
