"""instruction_mix: executed instructions by opcode."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.profiled import profiled


def test_three_opcodes(tmp_path: Path) -> None:
    metrics = {
        "sass__inst_executed_per_opcode": (100.0, {"LDG": 30, "HMMA": 60, "FOO": 10}),
        "sass__thread_inst_executed_true_per_opcode": (2400.0, {"HMMA": 60 * 32, "LDG": 30 * 16}),
    }
    fields = "opcode", "instruction_class", "executed", "share_pct", "threads_per_inst"
    assert rows(profiled(tmp_path, metrics), "instruction_mix", *fields) == [
        ("HMMA", "tensor", 60.0, 60.0, 32.0),
        ("LDG", "global memory", 30.0, 30.0, 16.0),
        ("FOO", "other", 10.0, 10.0, None),
    ]


def test_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no counts per opcode"):
        profiled(tmp_path, {}).ask("instruction_mix")
