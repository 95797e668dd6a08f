"""host-busy on recordings that are as short as their first calls."""

from __future__ import annotations

from pathlib import Path

from support.rules import answers
from support.traces import op, opened


def test_one_short_pass_is_told_to_warm_up(tmp_path: Path) -> None:
    """Eleven operators of 1 ms, one behind the other: 11 ms in all."""
    run = opened(tmp_path, [op("aten::conv2d", 1000 * n, 1000) for n in range(11)])
    (found,) = answers(run, "host-busy")
    assert "11.00 ms in all: what the first calls do once is part of it" in found.evidence
    assert str(found.fix).startswith("record several passes after a warm-up")


def test_a_long_recording_is_not(tmp_path: Path) -> None:
    run = opened(tmp_path, [op("aten::conv2d", 1000 * n, 1000) for n in range(110)])
    (found,) = answers(run, "host-busy")
    assert str(found.fix).startswith("a GPU")
