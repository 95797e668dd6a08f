"""cast-copies: half of each weight again, kept by autocast."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import Entry, alloc, frames, opened, snapshot
from support.training import MAKE

LINEAR = frames("linear.py:15:forward", "model.py:9:forward", "t.py:1:run")
SIZES = [4096, 8192] * 8


def inference(copies: list[int], weights: list[int] = SIZES) -> dict:
    """Weights, then blocks of the forward pass that stay to its end."""
    events: list[Entry] = [
        alloc(100_000 * (n + 1), size, n, MAKE) for n, size in enumerate(weights)
    ]
    events += [
        alloc(9_000_000 + 100_000 * n, size, 100 + n, LINEAR) for n, size in enumerate(copies)
    ]
    return snapshot(events, [])


def test_half_of_every_weight(tmp_path: Path) -> None:
    """8 × 4,096 and 8 × 8,192 bytes of weights, half of it again: all of that goes."""
    assert_finds(
        opened(tmp_path, inference([size // 2 for size in SIZES])),
        "cast-copies",
        cost_bytes=49_152,
        gain_bytes=49_152,
        evidence=["16 blocks of half the size of 16 weights, in 2 sizes", "forward (linear.py:15)"],
        fix="torch.inference_mode()",
    )


def test_no_more_of_a_size_than_weights(tmp_path: Path) -> None:
    """Ten blocks more of 2,048 bytes are activations."""
    found = inference([*(size // 2 for size in SIZES), *[2048] * 10])
    assert_finds(
        opened(tmp_path, found), "cast-copies", cost_bytes=49_152, gain_bytes=49_152, evidence=[],
        fix="cache_enabled=False",
    )  # fmt: skip


@pytest.mark.parametrize(
    "copies",
    [[3000] * 16, [2048] * 8, [2048, 4096] * 3, SIZES],
    ids=["other sizes", "one size", "few", "as large as the weights"],
)
def test_activations(tmp_path: Path, copies: list[int]) -> None:
    assert_silent(opened(tmp_path, inference(copies)), "cast-copies")
