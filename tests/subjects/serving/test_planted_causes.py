"""Simulated servers that are slow for one reason: it is found first, with its gain.

The simulator (tests/synth_serving) shares nothing with the analyses. Gains may be off by a tenth.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import sightline
from support.campaigns import sample
from synth_serving.causes import (
    CAUSES,
    Case,
    admit_few,
    attend_slowly,
    draft_in_vain,
    load_experts_unevenly,
    pad_graphs,
    preempt,
    serve_well,
    wait_for_keys,
)
from synth_serving.kineto import write_client, write_metrics, write_trace
from synth_serving.nsys import write_export

SEEDS = range(12)
CASES = [(make, seed) for make in CAUSES for seed in SEEDS]


def name_case(value: object) -> str:
    return getattr(value, "__name__", str(value))


def open_case(case: Case, folder: Path) -> sightline.Session:
    ranks = max(len(step.ranks) for step in case.served.steps) or 1
    paths = [write_trace(case.served, folder, case.engine, rank) for rank in range(ranks)]
    if case.has_client:
        paths.append(write_client(case.served, folder))
    if case.has_metrics:
        paths.append(write_metrics(case.served, folder))
    return sightline.open(*map(str, paths))


@pytest.mark.parametrize(("make", "seed"), sample(CASES, len(SEEDS)), ids=name_case)
def test_planted_cause_comes_first_with_its_gain(
    make: Callable[[random.Random], Case], seed: int, tmp_path: Path
) -> None:
    case = make(random.Random(seed))
    first = open_case(case, tmp_path).answer().findings[0]
    assert first["rule"] == case.cause
    assert first["gain_ns"] == pytest.approx(case.gain_ns, rel=0.1)
    assert first["fix"]
    assert first["verify"]


# What Nsight Systems does not record of a server: shapes, Python's functions, the client, metrics;
# and what its ranges do not say: a graph's places, drafted tokens.
NOT_AS_NSYS = (
    pad_graphs, admit_few, attend_slowly, wait_for_keys, load_experts_unevenly, draft_in_vain,
    preempt,
)  # fmt: skip


@pytest.mark.parametrize("make", [m for m in CAUSES if m not in NOT_AS_NSYS], ids=name_case)
def test_the_same_as_nsight_systems_records_it(
    make: Callable[[random.Random], Case], tmp_path: Path
) -> None:
    """TensorRT-LLM's NVTX ranges: the same phases, the same cause and its own flag."""
    case = make(random.Random(5))
    run = sightline.open(str(write_export(case.served, tmp_path)))
    assert run.ask("engine_steps")["phase"].to_list() == [s.phase for s in case.served.steps]
    first = run.answer().findings[0]
    assert first["rule"] == case.cause
    assert first["gain_ns"] == pytest.approx(case.gain_ns, rel=0.1)
    assert "--" not in first["fix"]  # its options are not flags of vLLM's or SGLang's


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("seed", sample(range(6), 6))
def test_every_phase_and_token_is_as_simulated(engine: str, seed: int, tmp_path: Path) -> None:
    for make in CAUSES:
        if make is draft_in_vain and engine == "sglang":
            continue  # its text of a step that verifies has no tokens
        served = make(random.Random(seed)).served
        folder = tmp_path / make.__name__
        folder.mkdir()
        steps = sightline.open(str(write_trace(served, folder, engine))).ask("engine_steps")
        assert steps.select("phase", "start_ns").rows() == [
            (step.phase, step.kernels[0].start_ns + steps["start_ns"][0] - begin)
            for begin in [served.steps[0].kernels[0].start_ns]
            for step in served.steps
        ]
        tokens = steps.select("prefill_tokens", "decode_tokens").sum().row(0)
        assert tokens == (
            sum(step.prefill[1] for step in served.steps),
            sum(step.checked for step in served.steps),
        )


def test_a_server_without_a_fault_has_none(tmp_path: Path) -> None:
    run = sightline.open(str(write_trace(serve_well(random.Random(0)), tmp_path)))
    rules = [f["rule"] for f in run.answer().findings if not f["abstained"] and f["gain_ns"]]
    assert rules == []
