"""idle_rules: the one rule that speaks for each gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.simulated import simulated
from support.traces import call, kernel, launched, op, opened


def test_three_gaps_of_three_rules(tmp_path: Path) -> None:
    """An allocation, a wait, and a late launch; then kernels that were launched ahead."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaMalloc", 115, 80),
            launched(200, kernel("b", 210, 100)),
            call("cudaDeviceSynchronize", 220, 95),
            launched(320, kernel("c", 330, 100)),
            op("json.dumps", 435, 60),
            launched(500, kernel("d", 510, 100)),
            *(launched(510 + 10 * i, kernel("e", 610 + 100 * i, 100)) for i in range(9)),
        ],
    )
    assert rows(run, "idle_rules", "start_ns", "end_ns", "cause", "rule", "host_op") == [
        (110_000, 210_000, "allocation", "allocator-churn", "cudaMalloc"),
        (310_000, 330_000, "host_sync", "sync-in-step", "cudaDeviceSynchronize"),
        (430_000, 510_000, "host_late", "host-late", "json.dumps"),
    ]


@pytest.mark.parametrize("scenario", ["random_program", "h2d_bound", "straggler"])
def test_every_gap_belongs_to_one_rule(scenario: str) -> None:
    run = simulated(scenario).run
    gaps = run.ask("idle_rules").get_column("duration_ns").sum()
    assert gaps == run.ask("breakdown").get_column("idle_ns").sum()
