"""host-random: numbers drawn on the CPU, and the runtime's calls in operators that copy them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent
from support.traces import call, op, opened

RULE = "host-random"


def loop(folder: Path, draws: int, *, copies: bool) -> Run:
    """Ten turns: aten::randn (aten::normal_ inside), then the rest of 1,000 µs; all in µs."""
    events: list[Any] = []
    for turn in range(10):
        at = turn * 1_000
        events += [op("aten::randn", at, draws), op("aten::normal_", at + 1, draws - 2)]
        if copies:
            events += [op("aten::to", at + draws, 990 - draws)]
            events += [op("aten::_to_copy", at + draws + 1, 988 - draws)]
            events += [op("aten::copy_", at + draws + 2, 986 - draws)]
            events += [call("cudaMemcpyAsync", at + draws + 3, 984 - draws)]
        else:
            events += [op("aten::mm", at + draws, 990 - draws)]
    return opened(folder, events)


def test_drawn_for_a_gpu(tmp_path: Path) -> None:
    run = loop(tmp_path, 700, copies=True)
    (found,) = answers(run, RULE)
    assert found.gain_ns == pytest.approx(10 * 698_000, rel=0.01)
    assert 'device="cuda"' in found.fix
    parts = {r["part"]: r["own_ns"] for r in run.ask("host_breakdown").to_dicts()}
    # The copy's time is in the runtime's call, and no Python.
    assert parts["copies and allocation"] == pytest.approx(10 * 286_000, rel=0.02)
    assert parts["Python"] < 200_000
    assert answers(run, "host-busy") == []


def test_drawn_anew_on_a_cpu(tmp_path: Path) -> None:
    (found,) = answers(loop(tmp_path, 300, copies=False), RULE)
    assert "once, before the loop" in found.fix
    assert "cuda" not in found.fix


def test_a_long_first_allocation_shows_a_gpu(tmp_path: Path) -> None:
    """Nothing of a GPU but the second in which an allocation made its context."""
    events: list[Any] = []
    for turn in range(10):
        at = turn * 1_000_000
        events += [op("aten::normal_", at, 700_000)]
        context = 200_000 if turn == 0 else 10
        events += [op("aten::empty_strided", at + 700_000, context)]
        events += [op("aten::copy_", at + 700_000 + context, 50_000)]
    run = opened(tmp_path, events)
    (found,) = answers(run, RULE)
    assert 'device="cuda"' in found.fix
    assert answers(run, "host-busy") == []
    assert answers(run, "host-copies") == []  # 5 %: the context is not a copy


def test_few_numbers_are_no_problem(tmp_path: Path) -> None:
    assert_silent(loop(tmp_path, 90, copies=False), RULE)
