"""What a clock, a stream and a launch cannot do: left out or repaired, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run

EPOCH_US = 1_778_660_000_123_456  # as Kineto writes times


def open_trace(tmp_path: Path, events: list[dict[str, Any]]) -> Run:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return sightline.open(str(path))


def launch(n: int, at: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
            "ts": at, "dur": 8, "args": {"correlation": n}}  # fmt: skip


def kernel(n: int, at: float, dur: float, name: str = "gemm", stream: int = 7) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": at, "dur": dur,
            "args": {"device": 0, "stream": stream, "correlation": n}}  # fmt: skip


def make_events(count: int, *, shift_us: float = 0) -> list[dict[str, Any]]:
    """Kernels of 80 µs each 100 µs, each launched 30 µs before; the GPU's clock is off."""
    found = []
    for n in range(1, count + 1):
        at = EPOCH_US + 100 * n
        found += [launch(n, at - 30), kernel(n, at + shift_us, 80)]
    return found


def count_quality(run: Run) -> dict[str, int]:
    rows = run.table("quality").filter(pl.col("kind").str.starts_with("impossible"))
    return dict(rows.select("kind", "count").iter_rows())


@pytest.mark.parametrize("at_us", [0, 12_345])
def test_times_that_were_not_taken_are_left_out(tmp_path: Path, at_us: int) -> None:
    lost = [kernel(100 + n, at_us, 0) for n in range(5)]
    run = open_trace(tmp_path, [*make_events(20), *lost])
    assert run.table("device_ops").height == 20
    [row] = run.ask("breakdown").to_dicts()
    assert (row["window_ns"], row["compute_ns"]) == (1_980_000, 1_600_000)
    assert count_quality(run) == {"impossible_times": 5}


def test_half_of_the_times_were_not_taken(tmp_path: Path) -> None:
    lost = [kernel(100 + n, 0, 0) for n in range(20)]
    assert open_trace(tmp_path, [*lost, *make_events(20)]).ask("breakdown")["window_ns"].item() == (
        1_980_000
    )


def test_a_kernel_over_79_others_ends_where_the_next_begins(tmp_path: Path) -> None:
    events = make_events(100)
    events[2 * 20 + 1]["dur"] = 1_600_000
    run = open_trace(tmp_path, events)
    [row] = run.ask("breakdown").to_dicts()
    assert (row["window_ns"], row["compute_ns"]) == (9_980_000, 99 * 80_000 + 100_000)
    assert count_quality(run) == {"impossible_ends": 1}


def test_launches_before_their_programmatic_predecessors_end_are_as_recorded(
    tmp_path: Path,
) -> None:
    events = [kernel(n, EPOCH_US + 18 * n, 20, f"pdl_{n % 2}") for n in range(20)]
    run = open_trace(tmp_path, events)
    assert count_quality(run) == {}
    assert run.ask("breakdown")["compute_ns"].item() == 362_000


def test_what_is_no_stream_may_overlap(tmp_path: Path) -> None:
    # A hardware queue: every tenth kernel holds the next ones.
    events = [kernel(n, EPOCH_US + 10 * n, 8 if n % 10 else 95, f"k{n % 10}") for n in range(100)]
    run = open_trace(tmp_path, events)
    assert count_quality(run) == {}


def test_long_kernels_on_another_stream_are_as_recorded(tmp_path: Path) -> None:
    events = [*make_events(20), kernel(50, EPOCH_US + 100, 1_700, "attention", stream=8)]
    assert count_quality(open_trace(tmp_path, events)) == {}


@pytest.mark.parametrize("years", [-56, 56])
def test_clocks_that_are_decades_apart_tie_nothing(tmp_path: Path, years: int) -> None:
    run = open_trace(tmp_path, make_events(20, shift_us=years * 365 * 86_400 * 1e6))
    assert count_quality(run) == {"impossible_launches": 20}
    ops = run.table("device_ops")
    assert ops.get_column("launch_id").null_count() == 20
    assert run.ask("breakdown")["window_ns"].item() == 1_980_000
    rules = {finding.rule for finding in run.findings() if not finding.abstained}
    assert not rules & {"launch-bound", "host-late", "slow-launch"}


def test_a_kernel_before_its_launch_is_untied(tmp_path: Path) -> None:
    events = make_events(20)
    events[3]["ts"] -= 5_000
    run = open_trace(tmp_path, events)
    assert count_quality(run) == {"impossible_launches": 1}
    assert run.table("device_ops").get_column("launch_id").null_count() == 1
