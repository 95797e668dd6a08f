"""idle_parts: what each gap's time went to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.ask import rows
from support.simulated import simulated
from support.traces import call, kernel, launch, op, opened

# A gap of 900 µs, from 100 to 1,000 µs. What a launch takes is not known here: 10 µs are usual.
GAP = [kernel("a", 0, 100, 1), launch(-20, 5, 1), kernel("b", 1_000, 50, 2)]
# The kernel behind the gap is not the first of its name.
AGAIN = [kernel("b", -200, 50, 3), launch(-220, 5, 3), kernel("c", -150, 150)]


@pytest.mark.parametrize(
    ("events", "parts"),
    [
        # The wait returns at 400; then the host computes.
        (
            [call("cudaDeviceSynchronize", 50, 350), op("solve", 450, 400), launch(994, 4, 2)],
            [("host_sync", 300, "cudaDeviceSynchronize"), ("host_late", 600, "solve")],
        ),
        # Back from the wait, the thread needs its usual time for the next launch.
        (
            [call("cudaDeviceSynchronize", 50, 850), launch(994, 4, 2)],
            [("host_sync", 900, "cudaDeviceSynchronize")],
        ),
        # Launched at 300, and returned: it waits for something that is not recorded.
        (
            [op("solve", 90, 200), launch(300, 5, 2), call("cudaMemcpy", 310, 700)],
            [("host_late", 205, "solve"), ("not_started", 695, "cudaMemcpy")],
        ),
        # The launch call itself holds the thread.
        (
            [*AGAIN, op("solve", 90, 200), launch(300, 690, 2)],
            [("host_late", 200, "solve"), ("slow_launch", 700, "cudaLaunchKernel")],
        ),
        # The same for a kernel that was never launched before: its code is loaded.
        (
            [op("solve", 90, 200), launch(300, 690, 2)],
            [("code_loading", 700, None), ("host_late", 200, "solve")],
        ),
        # The way from the one to the other and to the launch goes to the longer.
        (
            [op("DataLoader", 100, 400), call("cudaMalloc", 550, 300), launch(994, 4, 2)],
            [("data_loading", 600, "DataLoader"), ("allocation", 300, "cudaMalloc")],
        ),
    ],
    ids=["wait-then-work", "pace", "not-started", "slow-launch", "first-launch", "two-things"],
)
def test_parts_of_a_gap(tmp_path: Path, events: list[Any], parts: list[Any]) -> None:
    run = opened(tmp_path, [*GAP, *events])
    last = max(r[0] for r in rows(run, "idle_parts", "start_ns"))
    got = rows(run, "idle_parts", "start_ns", "cause", "part_ns", "host_op")
    assert [(c, n // 1000, h) for s, c, n, h in got if s == last] == parts


@pytest.mark.parametrize("scenario", ["random_program", "h2d_bound", "straggler", "two_threads"])
def test_parts_sum_to_each_gap(scenario: str) -> None:
    run = simulated(scenario).run
    key = ["rank", "device_id", "start_ns", "end_ns"]
    parts = run.ask("idle_parts").group_by(key).agg(pl.col("part_ns").sum())
    assert parts.height == run.ask("idle_gaps").height
    assert (parts["end_ns"] - parts["start_ns"]).equals(parts["part_ns"])
