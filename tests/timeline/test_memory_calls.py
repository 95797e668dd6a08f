"""Stacks of allocations that a profiler noted beside operators, and what they tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.subjects.memory.allocations import follow_allocations
from sightline.subjects.memory.memory_stacks import describe_stacks
from sightline.timeline.memory_calls import find_memory_calls
from support.command import sightline as command
from support.pages import ROOT

RECORDED = ROOT / "tests" / "formats" / "recorded"
GPU = {"Device Type": 1, "Device Id": 0}


def span(name: str, cat: str, start: int, end: int, tid: int = 1) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": end - start,
    }


def memory(at: int, size: int, tid: int = 1, **args: Any) -> dict[str, Any]:
    args = {**GPU, "Bytes": size, **args}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": tid, "ts": at, "args": args}


def open_trace(folder: Path, *events: dict[str, Any]) -> sightline.Run:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return sightline.open(str(path))


def read_stack(run: sightline.Run, stack: int | None) -> list[str]:
    """The functions of a stack, innermost first."""
    calls = find_memory_calls(run)
    named = calls.stacks.join(calls.frames, on="frame_id")
    nodes = {row["stack_id"]: row for row in named.iter_rows(named=True)}
    found = []
    while stack is not None:
        found.append(nodes[stack]["function"])
        stack = nodes[stack]["parent_id"]
    return found


def test_a_stack_is_what_was_open_on_the_thread(tmp_path: Path) -> None:
    run = open_trace(
        tmp_path,
        span("train.py(7): main", "python_function", 0, 100),
        span("nn.Module: Linear_0", "python_function", 10, 40),
        span("aten::empty", "cpu_op", 20, 30),
        span("aten::other", "cpu_op", 20, 30, tid=2),
        memory(5, 64, Addr=1),
        memory(25, 128, Addr=2),
        memory(26, 256, Addr=3),
        memory(35, 512, Addr=4),
        memory(200, 32, Addr=5),
    )
    blocks = follow_allocations(run).blocks.sort("address")
    stacks = [read_stack(run, stack) for stack in blocks.get_column("stack_id")]
    assert stacks == [
        ["main"],
        ["aten::empty", "nn.Module: Linear_0", "main"],
        ["aten::empty", "nn.Module: Linear_0", "main"],
        ["nn.Module: Linear_0", "main"],
        [],
    ]
    assert blocks.item(1, "stack_id") == blocks.item(2, "stack_id")
    told = describe_stacks(run).filter(pl.col("stack_id") == blocks.item(1, "stack_id"))
    assert told.select("place", "module", "phase").row(0) == (
        "main (train.py:7)", "Linear_0", "forward"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("around", "phase"),
    [
        ("Optimizer.step#SGD.step", "optimizer"),
        ("autograd::engine::evaluate_function: MmBackward0", "backward"),
        ("nn.Module: Conv2d_1", "forward"),
        ("aten::copy_", "copy"),
        ("aten::mm", "other"),
    ],
)
def test_what_the_program_was_doing_without_python_functions(
    tmp_path: Path, around: str, phase: str
) -> None:
    category = "user_annotation" if "#" in around else "cpu_op"
    events = (
        span(around, category, 0, 9),
        span("aten::empty", "cpu_op", 1, 8),
        memory(5, 64, Addr=1),
    )
    run = open_trace(tmp_path, *events)
    stack = follow_allocations(run).blocks.item(0, "stack_id")
    assert dict(describe_stacks(run).select("stack_id", "phase").rows())[stack] == phase


def test_sums_of_events_without_addresses_or_sums(tmp_path: Path) -> None:
    """PyTorch 1.9 writes bytes alone: 64 bytes were there before, since they are freed."""
    run = open_trace(tmp_path, memory(1, 32), memory(2, -96), memory(3, 128), memory(4, -8))
    events = follow_allocations(run).events
    assert events.get_column("allocated_bytes").to_list() == [96, 0, 128, 120]
    assert run.ask("memory_peak").get_column("allocated_bytes").to_list() == [128]


def test_kinds_are_those_of_pytorchs_own_memory_profiler() -> None:
    """Of one run: its timeline says what each byte is of, from the graph of its tensors.

    What it calls an input is of no known kind here, and the timeline has parameters and optimizer
    state from before. Of one tensor of 8 bytes the two do not agree.
    """

    def sum_kinds(name: str) -> dict[str, int]:
        rows = sightline.open(str(RECORDED / name)).ask("peak_blocks")
        return dict(rows.group_by("kind").agg(pl.col("bytes").sum()).rows())

    ours, theirs = sum_kinds("blocks_32.json.gz"), sum_kinds("blocks_32.raw.json.gz")
    for kind in ("activation", "gradient", "temporary"):
        assert abs(ours[kind] - theirs[kind]) <= 8
        assert ours[kind] > 1_000_000
    assert ours["other"] == pytest.approx(theirs["input"], abs=16)
    assert set(theirs) - set(ours) == {"input", "parameter", "optimizer state"}


def test_the_screen_that_the_page_on_memory_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RECORDED)
    done = command("memory", "blocks_32.json.gz")
    shown = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    assert f"$ sightline memory trace.json.gz\n{done.out}```" in shown


def test_half_the_batch_of_a_profile_with_operators() -> None:
    """Recorded with a batch of 16, the same program has its peak at 13,067,440 bytes."""
    half = (
        sightline.open(str(RECORDED / "blocks_32.json.gz")).ask("smaller_batch").row(0, named=True)
    )
    assert half["after_low_bytes"] * 0.9999 <= 13_067_440 <= half["after_high_bytes"]
    assert half["after_bytes"] == pytest.approx(13_067_440, rel=0.005)
