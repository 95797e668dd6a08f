"""The dependency graph: everything comes after what it waited for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from support.simulated import WITH_DEVICE, simulated
from support.traces import kernel, launched, opened
from synth_nsys import Export


def nodes_of(scenario, seed=0, dialect="2025"):
    return simulated(scenario, seed, dialect).run.ask("dependencies")


@pytest.mark.parametrize("scenario", WITH_DEVICE)
def test_causes_come_first(scenario):
    nodes = nodes_of(scenario)
    for edge in ("prev", "launch", "wait"):
        assert nodes.filter(pl.col(edge) >= pl.col("node")).is_empty()
    # A residual is never negative: no lag says more than was recorded.
    begun = nodes.filter(pl.any_horizontal(pl.col("prev", "launch", "wait").is_not_null()))
    assert begun.get_column("residual_ns").min() >= 0


def test_pages_follow_who_touched_them(tmp_path: Path) -> None:
    """A page that the host reads 3 ms behind a call stays 3 ms behind it, and nothing is left."""
    export = Export("3.25.0")
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("add", 10_000, 1_010_000, 1)
    export.api("cudaDeviceSynchronize", 6_000, 1_020_000, 2)
    for at in (4_020_000, 6_020_000):
        export.copy(12, at, at + 200_000, 0, 2 << 20, 4, 2, virtualAddress=at, migrationCause=2)
    run = sightline.open(str(export.write(tmp_path / "run.sqlite")))
    nodes = run.ask("dependencies")
    first, second = nodes.filter(pl.col("name").str.contains("Unified")).to_dicts()
    before = nodes.row(first["prev"], named=True)
    assert (before["kind"], first["prev_lag_ns"]) == ("finish", 3_000_000)
    assert (second["prev"], second["prev_lag_ns"]) == (first["node"], 1_800_000)
    assert first["residual_ns"] == second["residual_ns"] == 0
    parts = dict(
        run.ask("critical_path").group_by("part").agg(pl.col("duration_ns").sum()).iter_rows()
    )
    assert parts["CPU code between calls"] >= 4_800_000


@pytest.mark.parametrize(
    ("ends_at", "follows"), [(30, True), (995, False)], ids=["idle by then", "still at work"]
)
def test_the_first_call_follows_work_of_before_the_recording(
    tmp_path: Path, ends_at: int, *, follows: bool
) -> None:
    """The device had been done for 970 µs before the first recorded call: the host's own time."""
    work = [kernel("earlier", 0, ends_at), *launched(1_000, kernel("next", 1_010, 20))]
    nodes = opened(tmp_path, work).ask("dependencies")
    earlier = nodes.row(by_predicate=pl.col("name") == "earlier", named=True)
    first = nodes.row(by_predicate=pl.col("kind") == "call", named=True)
    assert first["prev"] == (earlier["node"] if follows else None)
    assert first["prev_lag_ns"] == (970_000 if follows else None)
