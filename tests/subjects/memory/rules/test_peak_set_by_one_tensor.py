"""One tensor without which the peak is much lower."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import alloc, frames, free, opened, snapshot

MAKE, HEAD = frames("m.py:1:__init__"), frames("h.py:2:forward")


def spike(size: int) -> dict:
    events = [alloc(1, 800, 1, MAKE)]
    for t in (2, 4):  # in every step
        events += [alloc(5000, size, t, HEAD), *free(5000, size, t + 1)]
    return snapshot(events, [])


def test_a_spike_in_every_step(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, spike(200)),
        "peak-set-by-one-tensor",
        cost_bytes=200,
        gain_bytes=200,
        evidence=["forward (h.py:2)", "20.0 %", "1.000 kB, without this tensor 800 B"],
        fix="in chunks",
    )


def test_a_small_spike(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, spike(140)), "peak-set-by-one-tensor")


def test_a_large_parameter_is_always_there(tmp_path: Path) -> None:
    run = opened(tmp_path, snapshot([alloc(1, 800, 1, MAKE), alloc(2, 90, 2, MAKE)], []))
    assert_silent(run, "peak-set-by-one-tensor")
