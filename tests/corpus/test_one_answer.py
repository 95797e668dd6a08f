"""Who holds the time: report, critical path, what-if, ladder and ranks say the same.

Stated as shares of the window. A share of the critical path is the most that a class of work can
hold, and what the replay gains with it taken out is the least: every answer lies between them.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.answer.path_notes import list_path_notes
from sightline.core.algebra.intervals import merge_intervals
from sightline.core.algebra.lookup import Texts
from sightline.core.model.run import Run
from sightline.errors import SightlineError
from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from sightline.replay.whatif import parse_wish, replay_wishes
from sightline.timeline.api_calls import may_wait
from sightline.timeline.segments import select_repeating
from support.campaigns import CAMPAIGNS, sample
from support.corpus import CORPUS, list_recordings, name_recording

# What a rung of the ladder frees, and the parts of the path that end with it: a window gets no
# shorter than the rest of the chain that held it.
HELD_BY = {
    "host": ("CPU", "launch", "return of a wait", "not explained", "launched", "start of a graph"),
    "copies": ("copy or memset",),
    "communication": ("communication",),
}
# What a selector of `whatif` halves, and the parts of the path that are of it.
HALVED = {
    "kernel:.*": ("compute", "communication", "unknown"),
    "comm:.*": ("communication",),
    "memcpy:.*": ("copy or memset",),
    "op:.*": ("compute", "communication", "copy or memset", "unknown"),
}
# In % of the window (ours). A replay takes a launch call away with its copy, and orders again what
# the path follows by guess: up to 2.0 on 46 recordings.
APART_PCT = 2.5
FORMATS = (
    *("kineto/**/*.json", "kineto/**/*.json.gz", "nsys/**/*.sqlite", "nsys/**/*.nsys-rep"),
    *(
        "rocpd/**/*.db",
        "intel_unitrace/**/t.txt",
        "xplane/**/*.pb",
        "rocprof_legacy/**/*_trace.txt*",
    ),
)
# In `make test` small ones; all in `make sweep`.
MOST_BYTES = 100_000_000 if CAMPAIGNS else 1_500_000
SMALL = [p for p in list_recordings(*FORMATS) if p.stat().st_size < MOST_BYTES]
# Folders that hold a recording of each rank of one job.
JOBS = ("kineto/astra-sim__astra-sim/megatron-tp8",)


def open_repeating(path: Path) -> Run:
    """The run as the report sees it; skips what is none by itself, or without a device."""
    try:
        run = sightline.open(str(path))
    except SightlineError:
        pytest.skip("no recording of its own: see tests/corpus/test_answers.py")
    if not run.rows("device_ops"):
        pytest.skip("no device was recorded")
    return select_repeating(run)


def measure_window(run: Run) -> int:
    window = run.ask("breakdown").get_column("window_ns").max()
    assert isinstance(window, int)
    return max(window, 1)


def share_of_path(run: Run, parts: tuple[str, ...]) -> float:
    """How much of the window the path spends in parts of these names, in %."""
    mine = pl.any_horizontal(pl.col("part").str.starts_with(part) for part in parts)
    ns = run.ask("critical_path").filter(mine).get_column("duration_ns").sum()
    return float(100 * ns / measure_window(run))


@pytest.mark.corpus
@pytest.mark.parametrize("path", sample(SMALL, 7), ids=name_recording)
def test_the_path_and_the_ladder_agree(path: Path) -> None:
    run = open_repeating(path)
    for free, gain in run.ask("limits").select("free", "gain_pct").rows():
        if free in HELD_BY:
            assert gain <= share_of_path(run, HELD_BY[free]) + APART_PCT, free
    waits = _measure_busy_waits(run, run.ask("critical_path"))
    assert 100 * waits / measure_window(run) <= APART_PCT


@pytest.mark.corpus
@pytest.mark.parametrize("path", sample(SMALL, 7), ids=name_recording)
def test_the_path_and_what_if_agree(path: Path) -> None:
    """Work that takes half as long gains no more than half of what the path spends in it."""
    run = open_repeating(path)
    for selector, parts in HALVED.items():
        gain, _ = replay_wishes(run, [parse_wish(f"{selector}=0.5", scale=True)])
        most = share_of_path(run, parts) / 2 + APART_PCT
        assert 100 * gain.ns / measure_window(run) <= most, selector


@pytest.mark.corpus
@pytest.mark.parametrize("path", sample(SMALL, 7), ids=name_recording)
def test_the_path_and_the_report_agree(path: Path) -> None:
    """The path is in a device's work for no longer than the device works.

    Where the report calls the device busy and the path lies with the host, the command says that
    the host is not alone.
    """
    run = open_repeating(path)
    parts = run.ask("breakdown")
    if parts.height == 1:
        busy = 100 - parts.item(0, "idle_pct")
        assert share_of_path(run, HALVED["op:.*"]) <= busy + APART_PCT
    findings = [f for f in sightline.findings(run) if not f.abstained]
    says_busy = any("computes nearly all the time" in f.title for f in findings)
    if says_busy and share_of_path(run, ("host",)) > 50:
        notes = list_path_notes(run, run.ask("critical_path"))
        assert any(note.startswith("Host: ") for note in notes)


@pytest.mark.corpus
@pytest.mark.parametrize("job", JOBS)
def test_ranks_and_the_report_agree(job: str) -> None:
    """Between collectives a rank computes no longer than its device does, and idles as it idles."""
    paths = sorted(str(p) for p in (CORPUS / job).glob("*.json*"))
    if len(paths) < 2:
        pytest.skip("not in this corpus")
    reduced = reduce_recordings(paths)
    answer = judge_ranks(reduced)
    run = sightline.open(*paths)
    busy = dict(run.ask("breakdown").select("rank", pl.col("compute_ns")).rows())
    rows = answer.job.rows.group_by("rank").agg(pl.col("compute_ns").sum())
    for rank, ns in rows.rows():
        assert ns <= busy[rank] * (1 + APART_PCT / 100), rank
    whole = max(answer.path.get_column("ns").sum(), 1)
    late = answer.path.filter(pl.col("part") == "idle").get_column("ns").sum()
    assert 100 * late / whole <= share_of_path(run, HELD_BY["host"]) + APART_PCT


def _measure_busy_waits(run: Run, pieces: pl.DataFrame) -> int:
    """How long the path lies in calls that wait for a device while that device works, ns.

    Such a call is held by the work, which must then be on the path in its place.
    """
    waits = pieces.filter(pl.col("part") == "CPU in a call", may_wait(Texts(pieces["name"])))
    ops = run.table("device_ops").select("start_ns", "end_ns")
    busy = merge_intervals(ops, [])
    both = waits.select("start_ns", "end_ns").join(busy, how="cross", suffix="_busy")
    shared = pl.min_horizontal("end_ns", "end_ns_busy") - pl.max_horizontal(
        "start_ns", "start_ns_busy"
    )
    return int(both.select(shared.clip(0)).to_series().sum())
