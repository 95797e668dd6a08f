"""stalls: what warps wait for, by counters and by samples, which stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError, RequestError
from support.ask import rows
from support.profiled import LATENCY, STALL, opened, profiled, with_code


def test_counters_and_samples(tmp_path: Path) -> None:
    """6 and 1 of 8 cycles; 30 and 3 of 33 samples, of which 20 while nothing was issued."""
    counters = {STALL.format("long_scoreboard"): 6.0, STALL.format("selected"): 1.0, LATENCY: 8.0}
    run = opened(tmp_path, with_code(**counters))
    assert rows(run, "stalls", "family", "reason", "value", "share_pct") == [
        ("counters", "long_scoreboard", 6.0, 75.0),
        ("counters", "selected", 1.0, 12.5),
        ("samples", "long_scoreboard", 30.0, 100 * 30 / 33),
        ("samples", "selected", 3.0, 100 * 3 / 33),
        ("samples_not_issued", "long_scoreboard", 20.0, 100.0),
    ]


def test_by_line_and_by_instruction(tmp_path: Path) -> None:
    run = opened(tmp_path, with_code())
    lines = run.ask("stalls", by="line").filter(family="samples")
    assert lines.select("line", "value").rows() == [(12, 30.0), (10, 3.0)]
    by_instruction = run.ask("stalls", by="instruction").filter(family="samples")
    assert by_instruction.get_column("opcode").to_list() == ["FADD", "LDG"]
    with pytest.raises(RequestError, match="by 'file'"):
        run.ask("stalls", by="file")


def test_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="ncu"):
        profiled(tmp_path, {}).ask("stalls")
