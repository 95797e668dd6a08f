"""A stack whose blocks add up, step after step."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import opened
from support.training import train


def test_seven_bytes_in_each_of_seven_steps(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, train(7, leak=7)),
        "memory-leak",
        cost_bytes=42,
        gain_bytes=42,
        evidence=["7 B more are held", "log (t.py:9)", "5 rises and 0 falls over 6 steps"],
        fix=".detach()",
    )


def test_four_rises_may_be_chance(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train(6, leak=7)), "memory-leak")


def test_training_that_keeps_nothing(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train(7)), "memory-leak")
