"""buffer-copied-back: a fill, a kernel and a copy of as many bytes, turn after turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import copy, kernel, launched, opened

RULE = "buffer-copied-back"
MB = 1 << 20


def turns(
    folder: Path, number: int, *, filled: int = MB, copied: int = MB, work: bool = True
) -> Run:
    """Turns of 100 µs: a fill of 10 µs, a kernel of 70 and a copy of 20."""
    events = []
    for i in range(number):
        at, called = 1000 + 100 * i, 10 * i
        fill = kernel("Memset (Device)", at, 10, cat="gpu_memset", bytes=filled)
        events.append(launched(called, fill, "cudaMemsetAsync", 1))
        if work:
            events.append(launched(called + 2, kernel("update", at + 10, 70), dur=1))
        back = copy("Memcpy DtoD (Device -> Device)", at + 80, 20, copied)
        events.append(launched(called + 4, back, "cudaMemcpyAsync", 1))
    events.append(launched(10 * number, kernel("update", 1000 + 100 * number, 100)))
    return opened(folder, events)


def test_nine_turns(tmp_path: Path) -> None:
    """9 × 30 of 1,000 µs."""
    run = turns(tmp_path, 9)
    assert_speaks(
        run,
        RULE,
        cost_ns=270_000,
        gain_ns=270_000,
        evidence=["9 × memcpy of 1.049 MB, 180.0 µs", "9 × memset of 1.049 MB, 90.00 µs"],
        fix="two tensors alternately",
        confidence="medium",
    )
    # It is one problem, and no two.
    assert_silent(run, "copy-bound")
    assert_silent(run, "redundant-memset")


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (3, {}),
        (9, {"filled": 2 * MB}),
        (9, {"filled": MB - 1, "copied": MB - 1}),
        (9, {"work": False}),
    ],
    ids=["three turns", "another size", "small", "nothing writes between"],
)
def test_no_turns_of_one_buffer(tmp_path: Path, number: int, more: dict[str, int]) -> None:
    assert_silent(turns(tmp_path, number, **more), RULE)
