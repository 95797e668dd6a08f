"""two-graphs: the last step's results are held while the next step makes its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot

LAYER = frames("model.py:9:forward", "t.py:1:run")
SIZES = [4096, 8192, 16384] * 5  # 143,360 bytes


def step(made: list[int], held: list[int], between: int = 0) -> dict:
    """A forward pass makes blocks; then those that were held before are freed.

    `between` of these frees have an allocation behind them, as in a backward pass.
    """
    events: list[Entry] = [alloc(100_000 * (n + 1), s, n, LAYER) for n, s in enumerate(made)]
    for n, size in enumerate(held):
        events += free(9_000_000 + 100_000 * n, size, 100 + 2 * n)
        if n < between:
            events += [alloc(20_000_000 + 100_000 * n, 512, 101 + 2 * n, LAYER)]
    return snapshot(events, [])


def test_as_many_of_each_size_are_freed_behind_the_peak(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, step(SIZES, SIZES)),
        "two-graphs",
        cost_bytes=143_360,
        gain_bytes=143_360,
        evidence=["15 blocks from before the recording", "the same 3 sizes"],
        fix="del loss, logits",
    )


@pytest.mark.parametrize(
    ("made", "held", "between"),
    [
        (SIZES, SIZES, 15),
        ([s + 512 for s in SIZES], SIZES, 0),
        (SIZES, SIZES[:6], 0),
        ([4096] * 15, [4096] * 15, 0),
    ],
    ids=["a backward pass", "other sizes", "few", "one size"],
)
def test_silence(tmp_path: Path, made: list[int], held: list[int], between: int) -> None:
    assert_silent(opened(tmp_path, step(made, held, between)), "two-graphs")
