"""Growth from step to step: slope, rises and their probability, worked out by hand."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import opened
from support.training import train


def test_seven_bytes_a_step(tmp_path: Path) -> None:
    rows = opened(tmp_path, train(7, leak=7)).ask("memory_leaks")
    columns = ("place", "bytes_per_step", "first_bytes", "last_bytes", "steps", "rises", "p_value")
    # A step ends where the optimizer begins, before its own log; the first is left out. So 7, 14,
    # ... 42 were held at the end of six: five rises of five, by chance one in 32.
    assert rows.select(*columns).rows() == [("log (t.py:9)", 7, 7, 42, 6, 5, 1 / 32)]


def test_training_that_keeps_nothing(tmp_path: Path) -> None:
    assert opened(tmp_path, train(7)).ask("memory_leaks").is_empty()


def test_two_steps_say_nothing(tmp_path: Path) -> None:
    assert opened(tmp_path, train(2, leak=7)).ask("memory_leaks").is_empty()
