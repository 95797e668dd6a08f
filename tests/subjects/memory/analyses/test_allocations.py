"""Blocks with what they hold: worked out from who allocated them and when they were released."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import opened
from support.training import train


def test_every_block_of_two_steps(tmp_path: Path) -> None:
    run = opened(tmp_path, train(2))
    rows = run.ask("allocations").select("bytes", "kind", "confidence", "place", "allocated_ns")
    assert rows.rows() == [
        (100, "parameter", "high", "__init__ (m.py:1)", 1_000),
        (40, "activation", "high", "forward (m.py:2)", 10_000),
        (60, "temporary", "high", "forward (n.py:3)", 11_000),
        (100, "gradient", "medium", "torch::autograd::Engine::thread_main", 13_000),
        (200, "optimizer state", "high", "step (t.py:3)", 15_000),
        (1, "temporary", "high", "step (t.py:3)", 16_000),
        (40, "activation", "high", "forward (m.py:2)", 20_000),
        (60, "temporary", "high", "forward (n.py:3)", 21_000),
        (100, "gradient", "medium", "torch::autograd::Engine::thread_main", 23_000),
        (1, "temporary", "high", "step (t.py:3)", 26_000),
    ]


def test_released_when_asked_and_freed_when_done(tmp_path: Path) -> None:
    run = opened(tmp_path, train(1))
    times = run.ask("allocations").select("released_ns", "freed_ns").rows()
    assert times[:2] == [(None, None), (14_000, 14_000)]
