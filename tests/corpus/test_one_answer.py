"""Who holds the time: the report, the critical path, what-if and the ladder say the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.algebra.intervals import merge_intervals
from sightline.core.algebra.lookup import Texts
from sightline.errors import SightlineError
from sightline.timeline.api_calls import may_wait
from support.campaigns import sample
from support.corpus import list_recordings, name_recording

# What a rung of the ladder frees, and the parts of the path that end with it: a window gets no
# shorter than the rest of the chain that held it.
HELD_BY = {
    "host": ("host", "launch", "return of a wait", "not explained", "launched", "start of a graph"),
    "copies": ("copy or memset",),
    "communication": ("communication",),
}
# In % of the window (ours). A replay takes a launch call away with its copy, and orders again what
# the path follows by guess: up to 2.0 on 46 recordings.
APART_PCT = 2.5
FORMATS = ("kineto/**/*.json", "kineto/**/*.json.gz", "nsys/**/*.sqlite", "nsys/**/*.nsys-rep")
SMALL_BYTES = 1_500_000
SMALL = [p for p in list_recordings(*FORMATS, "rocpd/**/*.db") if p.stat().st_size < SMALL_BYTES]


@pytest.mark.corpus
@pytest.mark.parametrize("path", sample(SMALL, 7), ids=name_recording)
def test_the_path_and_the_ladder_agree(path: Path) -> None:
    try:
        run = sightline.open(str(path))
    except SightlineError:
        pytest.skip("no recording of its own: see tests/corpus/test_answers.py")
    if not run.rows("device_ops"):
        pytest.skip("no device was recorded")
    pieces, window = run.ask("critical_path"), run.ask("breakdown").get_column("window_ns").max()
    assert isinstance(window, int)
    whole = max(window, 1)
    shares = {
        free: 100 * pieces.filter(_is_any(parts)).get_column("duration_ns").sum() / whole
        for free, parts in HELD_BY.items()
    }
    for free, gain in run.ask("limits").select("free", "gain_pct").rows():
        if free in shares:
            assert gain <= shares[free] + APART_PCT, free
    assert 100 * _measure_busy_waits(run, pieces) / whole <= APART_PCT


def _is_any(parts: tuple[str, ...]) -> pl.Expr:
    return pl.any_horizontal(pl.col("part").str.starts_with(part) for part in parts)


def _measure_busy_waits(run: sightline.Run, pieces: pl.DataFrame) -> int:
    """How long the path lies in calls that wait for a device while that device works, ns.

    Such a call is held by the work, which must then be on the path in its place.
    """
    waits = pieces.filter(pl.col("part") == "host, in a call", may_wait(Texts(pieces["name"])))
    ops = run.table("device_ops").select("start_ns", "end_ns")
    busy = merge_intervals(ops, [])
    both = waits.select("start_ns", "end_ns").join(busy, how="cross", suffix="_busy")
    shared = pl.min_horizontal("end_ns", "end_ns_busy") - pl.max_horizontal(
        "start_ns", "start_ns_busy"
    )
    return int(both.select(shared.clip(0)).to_series().sum())
