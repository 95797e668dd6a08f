"""Activations that wait for the backward pass, from 40 % of the peak on."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import answers, assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot
from support.training import BACKWARD, MAKE


def forward_and_backward(weight: int, layers: int = 4) -> dict:
    """Four activations of 100, each of a module of its own, and a small gradient for each."""
    events: list[Entry] = [alloc(1, weight, 1, MAKE)]
    for i in range(layers):
        events.append(alloc(1000 * (i + 1), 100, 2 + i, frames(f"l{i}.py:3:forward", "t.py:1:run")))
    for i in reversed(range(layers)):
        events += [alloc(100_000 + i, 1, 20, BACKWARD), *free(1000 * (i + 1), 100, 21)]
    return snapshot(events, [])


def test_most_of_the_peak(tmp_path: Path) -> None:
    # At the peak 100 + 400 + 1; without activations 104; one module of 100 is computed again.
    assert_finds(
        opened(tmp_path, forward_and_backward(100)),
        "activations-kept",
        cost_bytes=400,
        gain_bytes=501 - 104 - 100,
        evidence=["79.8 %", "100 B in 1 block: forward (l0.py:3)"],
        fix="checkpoint",
    )


def test_a_small_part_of_the_peak(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, forward_and_backward(700)), "activations-kept")


def test_scores_of_a_written_out_attention(tmp_path: Path) -> None:
    """Two blocks of 100 are an own softmax': what a fused one never keeps is said first."""
    events: list[Entry] = [alloc(1, 100, 1, MAKE)]
    lines = ("softmax.py:14:forward", "linear.py:3:forward") * 2
    for i, line in enumerate(lines):
        events.append(alloc(1000 * (i + 1), 100, 2 + i, frames(line, "t.py:1:run")))
    for i in reversed(range(len(lines))):
        events += [alloc(100_000 + i, 1, 20, BACKWARD), *free(1000 * (i + 1), 100, 21)]
    (found,) = answers(opened(tmp_path, snapshot(events, [])), "activations-kept")
    assert found.fix.startswith("torch.nn.functional.scaled_dot_product_attention in place of")
    assert "checkpoint" in found.fix
    (tmp_path / "b").mkdir()
    (usual,) = answers(opened(tmp_path / "b", forward_and_backward(100)), "activations-kept")
    assert "scaled_dot_product_attention" not in usual.fix
