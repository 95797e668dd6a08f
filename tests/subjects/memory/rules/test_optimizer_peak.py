"""optimizer-peak: the most memory is in use while parameters are updated."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot
from support.training import MAKE

STEP = frames("my_optimizer.py:78:step", "train.py:20:main")
FORWARD = frames("model.py:5:forward", "train.py:12:main")


def train(temporary: int, stack: object = STEP, *, activation: int = 50) -> dict:
    """Weights of 1,000; activations that come and go; then three temporaries of the update."""
    events: list[Entry] = [alloc(1, 1000, 1, MAKE)]
    events += [alloc(5000, activation, 2, FORWARD), *free(5000, activation, 3)]
    for n in range(3):
        events.append(alloc(10_000 * (n + 1), temporary, 4 + n, stack))
    for n in range(3):
        events += free(10_000 * (n + 1), temporary, 8 + n)
    return snapshot(events, [])


def test_temporaries_of_the_update(tmp_path: Path) -> None:
    # At the peak 1,000 + 3 × 100; without the temporaries the forward pass' 1,050.
    assert_finds(
        opened(tmp_path, train(100)),
        "optimizer-peak",
        cost_bytes=300,
        gain_bytes=250,
        evidence=["300 B in 3 blocks: step (my_optimizer.py:78)"],
        fix="fused=True",
    )


def test_a_small_part(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train(30)), "optimizer-peak")


def test_temporaries_of_another_place(tmp_path: Path) -> None:
    """A step of a solver, or of a loop, is not an optimizer's."""
    elsewhere = frames("solver.py:78:step", "train.py:20:main")
    assert_silent(opened(tmp_path, train(100, elsewhere)), "optimizer-peak")


def test_a_library_s_optimizer_called_from_the_program(tmp_path: Path) -> None:
    """The place is the program's own line, and the step lies further in."""
    called = frames(
        "/x/site-packages/torch/optim/adamw.py:699:_multi_tensor_adamw",
        "/x/site-packages/torch/optim/optimizer.py:480:wrapper",
        "train.py:20:main",
    )
    found = assert_finds(
        opened(tmp_path, train(100, called)),
        "optimizer-peak",
        cost_bytes=300,
        gain_bytes=250,
        evidence=["300 B in 3 blocks"],
        fix="fused=True",
    )
    assert not found.is_remark
