"""two-graphs: the last step's results are held while the next step makes its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_rules import assert_finds
from support.rules import answers, assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot
from support.training import BACKWARD, MAKE

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


def run_passes(first: int, then: list[Entry] = [], lines: int = 5) -> dict:  # noqa: B006
    """Passes `first` to 3, each of which frees the one before's results; pass 0 has none to free.

    Blocks of so many lines of `forward`, with 200,000 bytes of weights: each peak has 486,720.
    """
    stacks = [frames(f"model.py:{line}:forward", "t.py:1:run") for line in range(lines)]
    events: list[Entry] = [alloc(1, 200_000, 1, MAKE), *then]
    for n in range(first, 4):
        for i, size in enumerate(SIZES):
            stack = stacks[i // 3 % lines]
            events.append(alloc(1_000_000 * (n + 1) + 20_000 * i, size, 1000 * n + i, stack))
        for i, size in enumerate(SIZES if n else []):
            events += free(1_000_000 * n + 20_000 * i, size, 1000 * n + 100 + i)
    return snapshot(events, [])


@pytest.mark.parametrize("first", [0, 1], ids=["all recorded", "first before the recording"])
def test_passes_that_are_never_differentiated(tmp_path: Path, first: int) -> None:
    """Neither graph is needed; one operator's largest block, 16,384 bytes, is."""
    run = opened(tmp_path, run_passes(first))
    assert_silent(run, "two-graphs")
    assert_finds(
        run,
        "forward-kept",
        cost_bytes=286_720,
        gain_bytes=286_720 - 16_384,
        evidence=["two passes' results", "del after each pass alone saves 143.4 kB"],
        fix="torch.inference_mode()",
    )
    (held,) = answers(run, "memory-at-peak")
    assert "parameter 41.1 %" in held.summary
    assert held.summary.count("29.5 %") == 2  # this step's and the step before's
    assert "the previous step's results 29.5 %" in held.summary


@pytest.mark.parametrize("first", [0, 1], ids=["all recorded", "first before the recording"])
def test_every_step_holds_the_one_before(tmp_path: Path, first: int) -> None:
    """A program that trains elsewhere: `del` frees one of two graphs in all steps."""
    others: list[Entry] = [alloc(2, 8, 2, BACKWARD), *free(2, 8, 3)]
    assert_finds(
        opened(tmp_path, run_passes(first, others)),
        "two-graphs",
        cost_bytes=143_360,
        gain_bytes=143_360,
        evidence=["15 blocks from before this step" if first == 0 else "from before the recording"],
        fix="del loss, logits",
    )


def test_what_a_model_returns_is_no_graph(tmp_path: Path) -> None:
    """Hidden states, keys and values of all layers: `torch.no_grad()` may be there already."""
    run = opened(tmp_path, run_passes(1, lines=3))
    assert not [f for f in answers(run, "forward-kept") if "two passes" in f.summary]
    assert [f.gain for f in answers(run, "two-graphs")] != []
