"""Where tokens' time goes: parts that sum to what the simulated requests waited."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.errors import MissingDataError
from support.traces import call, host, kernel, launch, opened, write
from synth_serving.causes import CAUSES, prefill_long_prompts
from synth_serving.kineto import write_client, write_trace

# Its texts have no tokens; what a preempted request waits for is in no step that continues it.
NOT_THESE = ("pad_graphs", "preempt")


@pytest.mark.parametrize("make", [m for m in CAUSES if m.__name__ not in NOT_THESE])
def test_parts_sum_to_what_requests_waited(make: object, tmp_path: Path) -> None:
    """To the nanosecond: a token comes with the end of its step's last kernel."""
    served = make(random.Random(3)).served  # type: ignore[operator]
    ends = {step.end_ns: step.kernels[-1].end_ns for step in served.steps}
    waited = sum(ends[r.token_ns[-1]] - ends[r.token_ns[0]] for r in served.requests)
    run = sightline.open(str(write_trace(served, tmp_path)))
    parts = run.ask("token_time")
    assert parts["total_ns"].sum() == waited
    assert parts["tokens"].unique().to_list() == [sum(s.decode for s in served.steps)]


def test_prompts_beside_running_requests_have_their_part(tmp_path: Path) -> None:
    case = prefill_long_prompts(random.Random(3))
    parts = sightline.open(str(write_trace(case.served, tmp_path))).ask("token_time")
    told = sum(s.without_prompts_ns * s.decode for s in case.served.steps)
    beside = parts.filter(pl.col("part") == "prompts beside it")["total_ns"].sum()
    assert beside == pytest.approx(told, rel=0.02)


def test_prompts_that_run_alone_hold_up_who_ran_before(tmp_path: Path) -> None:
    """One runs; a prompt of 50 µs comes between; then two run. By hand, in µs."""
    names = (("DECODE bs=1", 0, 10), ("EXTEND bs=1 toks=9", 20, 50), ("DECODE bs=2", 75, 10))
    run = opened(tmp_path, [host("user_annotation", f"step[{n}]", at, dur) for n, at, dur in names])
    parts = dict(run.ask("token_time").select("part", "total_ns").rows())
    assert parts == {
        "model": 10_000 + 2 * 10_000,
        "prompts before it": 50_000,  # the one that ran waits for it, the new one made it
        "scheduling": 10_000 + 5_000 + 5_000,
    }


def test_requests_of_a_client_sum_to_what_it_measured(tmp_path: Path) -> None:
    case = prefill_long_prompts(random.Random(1))
    paths = (write_trace(case.served, tmp_path), write_client(case.served, tmp_path))
    rows = sightline.open(*map(str, paths)).ask("request_time")
    assert rows.height == len(case.served.requests)
    first = rows.select(pl.sum_horizontal(pl.col("^ttft_.+_ns$"))).to_series()
    parts = ("decode_steps_ns", "prompt_steps_ns", "scheduling_ns", "delivery_ns")
    rest = rows.select(pl.sum_horizontal(parts)).to_series()
    assert (first == rows["ttft_ns"]).all()
    assert (rest == rows["rest_ns"]).all()
    assert (rows["delivery_ns"] + rows["ttft_delivery_ns"]).sum() < 0.02 * rows["rest_ns"].sum()


def test_a_first_request_waits_for_the_first_step(tmp_path: Path) -> None:
    """By hand: sent at 0, a step of 40 ms from 60 on, tokens at 101 and 161 ms."""
    names = ("execute_context_1(16)_generation_0(0)", "execute_context_0(0)_generation_1(1)")
    base_s, ms = 1_000, 1_000
    events = [
        host("user_annotation", names[0], base_s * 10**6 + 60 * ms, 40 * ms),
        host("user_annotation", names[1], base_s * 10**6 + 120 * ms, 40 * ms),
    ]
    client = [{"i": 0, "start": 1_000.0, "n": 2, "ttft": 0.101, "itl": [0.06], "end": 1_000.161}]
    (tmp_path / "client.json").write_text(json.dumps(client))
    run = sightline.open(str(write(tmp_path, events)), str(tmp_path / "client.json"))
    (row,) = run.ask("request_time").to_dicts()
    in_ms = {name: round(row[f"ttft_{name}_ns"] / 1e6, 3) for name in
             ("own_step", "other_steps", "scheduling", "before_steps", "delivery")}  # fmt: skip
    assert in_ms == {
        "own_step": 40.0, "other_steps": 0.0, "scheduling": 1.0, "before_steps": 60.0,
        "delivery": 0.0,
    }  # fmt: skip
    assert row["delivery_ns"] == 1_000_000


def test_without_numbers_of_requests(tmp_path: Path) -> None:
    name = "vllm/v1/worker/gpu_model_runner.py(1002): execute_model"
    run = opened(tmp_path, [host("python_function", name, 0, 60)])
    with pytest.raises(MissingDataError, match="time of tokens is unknown"):
        run.ask("token_time")


def test_what_a_step_waited_for_unrecorded_is_no_idle_time_of_the_model(tmp_path: Path) -> None:
    """A kernel that was launched at 10 µs begins at 90 µs, behind something unknown."""
    run = opened(
        tmp_path,
        [
            host("user_annotation", "step[DECODE bs=1]", 0, 100),
            launch(1, 2, 1),
            kernel("a", 5, 5, 1),
            call("cudaStreamWaitEvent", 10, 2),
            launch(20, 4, 2),
            kernel("b", 90, 10, 2),
        ],
    )
    parts = dict(run.ask("token_time").select("part", "total_ns").rows())
    unknown = run.ask("idle_rules").filter(cause="not_recorded")
    assert parts["model"] == 15_000
    assert parts["not recorded"] == unknown.select(pl.col("end_ns") - pl.col("start_ns")).item()
    assert sum(parts.values()) == 95_000
