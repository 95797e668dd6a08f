"""What the critical path is made of, on recordings that nobody here made."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline

HTA = "kineto/facebookresearch__HolisticTraceAnalysis"


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("recording", "part", "share"),
    [
        (
            f"{HTA}/critical_path/cuda_event_sync/event_sync_trace.json.gz",
            "CPU code between calls",
            59,
        ),
        (f"{HTA}/negative_queue_length_values_check/rank0.json.gz", "start of a graph", 34),
    ],
)
def test_what_explains_most(corpus: Path, recording: str, part: str, share: int) -> None:
    """The rest of `scripts/measure_paths.py`: those that were explained least. Shares in %."""
    by = pl.col("duration_ns").sum()
    pieces = (
        sightline.open(str(corpus / recording))
        .ask("critical_path")
        .filter(pl.col("duration_ns") > 0)
    )
    whole = pieces.get_column("duration_ns").sum()
    parts = dict(pieces.group_by("part").agg(100 * by / whole).rows())
    assert max(parts, key=parts.__getitem__) == part
    assert round(parts[part]) == share
    assert parts.get("not explained", 0) <= 3
