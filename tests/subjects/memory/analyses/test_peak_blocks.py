"""What fills the peak, in rows that add up to it; and what a peer says of the same snapshot."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from support.corpus import list_recordings, name_recording
from support.snapshots import opened
from support.training import train


def test_the_peak_by_kind(tmp_path: Path) -> None:
    rows = opened(tmp_path, train()).ask("peak_blocks").select("kind", "bytes", "blocks")
    assert rows.rows() == [
        ("optimizer state", 200, 1),
        ("parameter", 100, 1),
        ("gradient", 100, 1),
        ("activation", 40, 1),
    ]


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("memory_snapshot/**/*.pickle"), ids=name_recording)
def test_rows_add_up_to_the_peak(path: Path) -> None:
    run = sl.open(str(path))
    whole = run.ask("memory_peak").get_column("allocated_bytes").sum()
    assert run.ask("peak_blocks").get_column("bytes").sum() == whole


@pytest.mark.corpus
def test_adam_keeps_two_values_for_each_parameter(corpus: Path) -> None:
    folder = corpus / "memory_snapshot" / "NiuHuangxiaozi__assignment2-systems"
    path = (
        folder
        / "cs336_systems/profile_memory"
        / "forward_and_backward_memory_snapshot_200_mixed_precision.pickle"
    )
    rows = sl.open(str(path)).ask("peak_blocks")
    held = dict(rows.group_by("kind").agg(pl.col("bytes").sum()).rows())
    assert held["optimizer state"] == 2 * held["parameter"] == 181_571_584


@pytest.mark.corpus
def test_as_mosaic_says(corpus: Path) -> None:
    """Mosaic prints the stacks at its peak with their sizes in GiB, the largest first."""
    folder = corpus / "memory_snapshot" / "facebookresearch__mosaic" / "test"
    said = (folder / "outputs" / "test_out.txt").read_text()
    theirs = [float(size) for size in re.findall(r"Memory Usage: ([0-9.]+) GiB", said)]
    rows = sl.open(str(folder / "snapshots" / "output.pickle")).ask("peak_blocks")
    ours = [size / 2**30 for size in rows.filter(pl.col("kind") == "other")["bytes"]]
    assert len(theirs) > 5
    assert ours[: len(theirs)] == pytest.approx(theirs, abs=0)
