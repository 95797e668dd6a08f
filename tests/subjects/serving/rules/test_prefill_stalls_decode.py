"""Prompts that hold up running requests: beside them in a step, or in a step before theirs."""

from __future__ import annotations

from pathlib import Path

from support.rules import assert_silent, assert_speaks
from support.traces import Event, host, launched, opened
from support.traces import kernel as make_kernel


def step(text: str, ts: int, dur: int) -> list[object]:
    """A step whose one kernel takes all of it."""
    mark: Event = host("user_annotation", text, ts, 5)
    return [mark, *launched(ts + 1, make_kernel("k", ts + 10, dur))]


def test_a_mixed_step_among_steps_of_decode(tmp_path: Path) -> None:
    decode, mixed = "execute_context_0(0)_generation_4(4)", "execute_context_1(64)_generation_4(4)"
    names = [(decode, 10), (mixed, 50), (decode, 10), (decode, 10)]
    run = opened(tmp_path, [step(n, 100 * i, dur) for i, (n, dur) in enumerate(names)])
    assert_speaks(
        run,
        "prefill-stalls-decode",
        cost_ns=40_000,
        gain_ns=40_000,
        evidence=["1 step of 4", "64 prompt tokens", "4 running requests"],
        fix="--max-num-batched-tokens",
    )


def test_a_step_of_prompts_alone_while_others_wait(tmp_path: Path) -> None:
    names = [("DECODE bs=2", 10), ("EXTEND bs=1 toks=9", 50), ("DECODE bs=3", 10)]
    run = opened(tmp_path, [step(f"step[{n}]", 100 * i, d) for i, (n, d) in enumerate(names)])
    assert_speaks(
        run,
        "prefill-stalls-decode",
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["2 running requests"],
        fix="--chunked-prefill-size",
    )


def test_prompts_while_nobody_runs(tmp_path: Path) -> None:
    names = [("DECODE bs=2", 10), ("EXTEND bs=2 toks=9", 50), ("DECODE bs=2", 10)]
    run = opened(tmp_path, [step(f"step[{n}]", 100 * i, d) for i, (n, d) in enumerate(names)])
    assert_silent(run, "prefill-stalls-decode")


def test_without_a_step_of_decode_nothing_says_what_it_would_take(tmp_path: Path) -> None:
    run = opened(tmp_path, step("execute_context_9(8155)_generation_37(37)", 0, 500))
    assert_silent(run, "prefill-stalls-decode")
