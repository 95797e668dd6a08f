"""peak-set-by-one-layer: what a written-out expression holds at once, from 15 % of the peak on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import Entry, alloc, frames, free, opened, snapshot
from support.training import MAKE

HEAD = frames("model.py:20:forward", "t.py:1:run")


def run_layers(function: str, *, weights: int = 1000, at_once: int = 4) -> dict:
    """Two layers whose `function` makes four blocks of 100 bytes, `at_once` of them alive.

    A fifth of the same size comes when these are gone, and an output of 50 bytes after all.
    """
    events: list[Entry] = [alloc(1, weights, 1, MAKE)]
    for layer in range(2):
        t = 100 * layer
        for n in range(4):
            stack = frames(f"nn.py:{n + 5}:{function}", "model.py:9:forward", "t.py:1:run")
            events.append(alloc(1000 * (n + 1), 100, t + 2 * n + 2, stack))
            if n >= at_once - 1:
                events += free(1000 * (n + 2 - at_once), 100, t + 2 * n + 3)
        for n in range(5 - at_once, 4):
            events += free(1000 * (n + 1), 100, t + 20 + n)
        last = frames(f"nn.py:9:{function}", "model.py:9:forward", "t.py:1:run")
        events += [alloc(9000, 100, t + 30, last), *free(9000, 100, t + 31)]
    return snapshot([*events, alloc(9500, 50, 900, HEAD), *free(9500, 50, 901)], [])


def test_a_softmax_by_hand_is_fused_away(tmp_path: Path) -> None:
    """1,400 bytes at the peak, of which 1,050 would be left: weights, and the output."""
    assert_finds(
        opened(tmp_path, run_layers("softmax")),
        "peak-set-by-one-layer",
        cost_bytes=400,
        gain_bytes=350,
        evidence=["forward (model.py:9) holds 4 temporaries at once: 400 B", "softmax (nn.py:6)"],
        fix="scaled_dot_product_attention",
    )


def test_one_block_of_another_expression_stays(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, run_layers("mix")),
        "peak-set-by-one-layer",
        cost_bytes=400,
        gain_bytes=250,
        evidence=["mix (nn.py:5)", "without these 1.050 kB"],
        fix="work in place",
    )


def update(*, script: bool) -> dict:
    """An update out of place, in three lines: of a function, or of a script's own."""
    events: list[Entry] = [alloc(1, 1000, 1, MAKE)]
    for n in range(3):
        name = "<module>" if script else "update"
        events.append(alloc(1000 * (n + 1), 200, n + 2, frames(f"t.py:{n + 5}:{name}")))
    for n in range(3):
        events += free(1000 * (n + 1), 200, n + 10)
    return snapshot([*events, alloc(9500, 50, 900, HEAD), *free(9500, 50, 901)], [])


def test_a_function_that_is_no_layer(tmp_path: Path) -> None:
    """1,600 bytes at the peak, of which 1,050 would be left, and one of the three blocks."""
    assert_finds(
        opened(tmp_path, update(script=False)),
        "peak-set-by-one-layer",
        cost_bytes=600,
        gain_bytes=350,
        evidence=["update (t.py) holds 3 temporaries at once: 600 B", "update (t.py:6)"],
        fix="work in place",
    )


def test_lines_of_a_script_are_no_function(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, update(script=True)), "peak-set-by-one-layer")


@pytest.mark.parametrize(
    "program",
    [run_layers("softmax", weights=3000), run_layers("softmax", at_once=1)],
    ids=["small beside the weights", "one at a time"],
)
def test_silence(tmp_path: Path, program: dict) -> None:
    assert_silent(opened(tmp_path, program), "peak-set-by-one-layer")


def run_attention(back: str) -> dict:
    """A softmax keeps one block of 400 bytes, and three of that size come on the way back."""
    events: list[Entry] = [alloc(1, 300, 1, MAKE)]
    events.append(alloc(1000, 400, 2, frames("nn.py:5:softmax", "model.py:9:forward")))
    for n in range(3):
        stack = frames(f"??:0:torch::autograd::generated::{back}::apply(std::vector<at::Tensor>&&)")
        events.append(alloc(2000 + 1000 * n, 400, 3 + n, stack))
    for n in range(3):
        events += free(2000 + 1000 * n, 400, 10 + n)
    events += free(1000, 400, 20)
    return snapshot([*events, alloc(9500, 50, 900, HEAD), *free(9500, 50, 901)], [])


def test_scores_on_their_way_back_are_an_attentions(tmp_path: Path) -> None:
    """1,900 bytes at the peak: 1,600 of four equal blocks, and without them 350 at most."""
    assert_finds(
        opened(tmp_path, run_attention("DivBackward0")),
        "peak-set-by-one-layer",
        cost_bytes=1600,
        gain_bytes=1550,
        evidence=["holds 4 tensors of 400 B at once", "without these 350 B"],
        fix="scaled_dot_product_attention",
    )


def test_equal_blocks_of_other_steps_are_none(tmp_path: Path) -> None:
    assert_silent(
        opened(tmp_path, run_attention("NativeLayerNormBackward0")), "peak-set-by-one-layer"
    )
