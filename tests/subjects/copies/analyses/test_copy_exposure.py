"""copy_exposure: copies and memsets with nothing more useful beside them, by the rule on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.copies import transfer
from support.simulated import simulated
from support.traces import kernel, opened


def test_each_copy_is_one_rules(tmp_path: Path) -> None:
    """Half of the first copy is beside a kernel; the others are alone."""
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 100),
            transfer("Memcpy HtoD (Pinned -> Device)", 50, 100, stream=8),
            transfer("Memcpy HtoD (Pageable -> Device)", 150, 10),
            transfer("Memcpy DtoH (Device -> Pinned)", 160, 20),
            transfer("Memcpy DtoD (Device -> Device)", 180, 30),
            transfer("Memset (Device)", 210, 40),
            transfer("Memcpy HtoD (Pageable -> Device)", 250, 5, 65_536),
        ],
    )
    assert dict(run.ask("copy_exposure").select("rule", "total_ns").rows()) == {
        "h2d-bound": 50_000,
        "pageable-copies": 10_000,
        "d2h-in-step": 20_000,
        "copy-bound": 30_000,
        "redundant-memset": 40_000,
        "many-small-copies": 5_000,
        "unified-memory-thrashing": 0,
        "checkpoint-in-window": 0,
    }


@pytest.mark.parametrize("scenario", ["random_program", "h2d_bound", "straggler"])
def test_the_parts_sum_to_all_exposed_copies(scenario: str) -> None:
    run = simulated(scenario).run
    copies = run.ask("copy_exposure").get_column("total_ns").sum()
    assert copies == run.ask("breakdown").get_column("exposed_copy_ns").sum()
