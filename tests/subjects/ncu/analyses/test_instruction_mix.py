"""instruction_mix: executed instructions by opcode."""

from __future__ import annotations

import math
import random
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from sightline.errors import MissingDataError
from sightline.subjects.ncu.analyses.instruction_mix import _estimate_shares
from support.ask import rows
from support.profiled import CODE, opened, profiled, with_code


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


def test_shares_of_samples_in_which_a_warp_issued(tmp_path: Path) -> None:
    """Three of three: the share is 100 %, and by Wilson at least 3 / (3 + 1.96²).

    The warp is met at the FADD, which is next: it issued the LDG before.
    """
    fields = "opcode", "instruction_class", "executed", "issued_samples", "share_pct", "high_pct"
    met = {CODE: 0, CODE + 16: 3}
    run = opened(tmp_path, with_code(smsp__pcsamp_warps_issue_stalled_selected=(3, met)))
    assert rows(run, "instruction_mix", *fields) == [
        ("LDG", "global memory", None, 3, 100.0, 100.0),
    ]
    assert run.ask("instruction_mix").item(0, "low_pct") == pytest.approx(100 * 3 / (3 + 1.96**2))


@pytest.mark.parametrize(("share", "count"), [(0.02, 400), (0.3, 60), (0.5, 1000)])
def test_the_interval_holds_the_share_as_often_as_it_says(
    share: float, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 kernels with two instructions, each sampled so many times."""
    chance, kernels = random.Random(1), 500
    drawn = [sum(chance.random() < share for _ in range(count)) for _ in range(kernels)]
    samples = [
        (kernel, opcode, "stall_selected", n)
        for kernel, of_first in enumerate(drawn)
        for opcode, n in (("FFMA", of_first), ("LDG", count - of_first))
    ]
    columns = ["kernel_id", "issued_operation", "reason", "samples"]
    frame = pl.DataFrame(samples, schema=columns, orient="row")
    found = _estimate_shares(SimpleNamespace(table=lambda name: frame)).filter(opcode="FFMA")
    inside = found.filter(pl.lit(100 * share).is_between("low_pct", "high_pct")).height
    # 95 %, within three standard deviations of 500; a kernel that met none is a miss, or is not.
    assert inside / kernels >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / kernels)


def test_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no counts per opcode"):
        profiled(tmp_path, {}).ask("instruction_mix")
