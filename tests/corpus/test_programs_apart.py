"""Recordings of different programs are never merged without a word."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import pytest

import sightline
from sightline.errors import SightlineError
from support.campaigns import sample
from support.corpus import list_recordings, name_recording

PATTERNS = (
    *("kineto/**/*.json.gz", "nsys/**/*.sqlite", "nsys/**/*.nsys-rep", "rocpd/**/*.db"),
    *("ncu/**/*.ncu-rep", "memory_snapshot/**/*.pickle", "cpu_stacks/**/*.speedscope.json"),
    *("otf2/**/traces.otf2", "xplane/**/*.xplane.pb", "rocprofv3/**/*.db", "perfetto/**/*.pftrace"),
)
SMALL_BYTES = 1_000_000


def _list_one_of_each() -> list[Path]:
    """The smallest recording of each project: a pair of them is of two programs."""
    smallest: dict[tuple[str, ...], Path] = {}
    for path in sorted(list_recordings(*PATTERNS), key=lambda p: p.stat().st_size):
        if path.stat().st_size < SMALL_BYTES:
            smallest.setdefault(Path(name_recording(path)).parts[:2], path)
    return [smallest[key] for key in sorted(smallest)]


EACH = _list_one_of_each()
# Neighbors are of one format, where a merge is likeliest; a campaign tries all pairs of formats.
PAIRS = [*pairwise(EACH), *list(combinations(EACH, 2))[:: max(1, len(EACH) // 4)]]


@pytest.mark.corpus
@pytest.mark.parametrize(
    "pair", sample(PAIRS, 5), ids=lambda pair: " + ".join(name_recording(p) for p in pair)
)
def test_two_programs_are_refused_or_their_merge_is_told(pair: tuple[Path, Path]) -> None:
    try:
        alone = [sightline.open(str(path)) for path in pair]
    except SightlineError:
        pytest.skip("one of them is not a recording by itself")
    assert all(run.table("recordings").height for run in alone)
    try:
        run = sightline.open(*map(str, pair))
    except SightlineError:
        return
    read = run.table("recordings").get_column("path").to_list()
    told = " ".join(run.table("quality").get_column("text").to_list())
    kinds = run.table("quality").get_column("kind").to_list()
    assert len(read) == 1 or "unproven_job" in kinds, read
    assert all({str(path), str(path.parent)} & {*read} or path.name in told for path in pair)
