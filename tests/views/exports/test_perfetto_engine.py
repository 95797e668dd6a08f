"""Exports in Perfetto's own engine: every event arrives, as deep as it was nested."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightline as door
from sightline.views.exports import chrome, perfetto
from support import traces
from support.perfetto_engine import Query, open_engine

pytestmark = pytest.mark.xdist_group("perfetto_engine")

SLICES = "SELECT name, ts, dur, depth FROM slice ORDER BY ts, depth"
PROCESSES = "SELECT name FROM process WHERE name IS NOT NULL"
STREAMS = "SELECT name FROM thread WHERE name LIKE 'stream%'"
LOST = """
    SELECT (SELECT count(*) FROM slice), (SELECT count(*) FROM flow), (SELECT ifnull(sum(value), 0)
    FROM stats WHERE severity IN ('error', 'data_loss'))
"""
# 2024 in ns, and no multiple of what a float64 of microseconds can hold there (256 ns).
EPOCH = 1_712_184_698_000_000_123


@pytest.fixture(scope="module")
def engine() -> Iterator[Query]:
    with open_engine() as query:
        yield query


@pytest.fixture
def tight(tmp_path: Path):
    """Ranges that touch and nest to the nanosecond; kernels of one stream that overlap."""
    events = [
        traces.op("outer", 0, 1),
        traces.op("first", 0, 0.5),
        traces.op("inner", 0.001, 0.498),
        traces.op("second", 0.5, 0.5),
        traces.op("next", 1, 2),
        traces.kernel("one", 5, 10),
        traces.kernel("two", 10, 10),
        traces.kernel("three", 20, 1),
    ]
    return traces.opened(tmp_path, events, baseTimeNanoseconds=EPOCH)


def test_chrome_keeps_touching_ranges_nested_and_overlapping_kernels(tight, engine, tmp_path):
    (path,) = chrome.write(tight, tmp_path / "run.json")
    data = json.loads(path.read_text())
    assert data["baseTimeNanoseconds"] == EPOCH
    rows, names, threads = engine(path.read_bytes(), SLICES, PROCESSES, STREAMS)
    begin = rows[0][1]
    assert [(name, ts - begin, dur, depth) for name, ts, dur, depth in rows] == [
        ("outer", 0, 1000, 0),
        ("first", 0, 500, 1),
        ("inner", 1, 498, 2),
        ("second", 500, 500, 1),
        ("next", 1000, 2000, 0),
        ("one", 5000, 10_000, 0),
        ("two", 10_000, 10_000, 0),
        ("three", 20_000, 1000, 0),
    ]
    assert any(name.startswith("GPU 0") for (name,) in names)
    assert sorted(name for (name,) in threads) == ["stream 7", "stream 7 (overlapping)"]


@pytest.mark.campaign
def test_perfetto_keeps_the_same(tight, engine, tmp_path):
    (path,) = perfetto.write(tight, tmp_path / "run.perfetto-trace")
    (rows,) = engine(path.read_bytes(), SLICES)
    assert [(name, dur, depth) for name, _, dur, depth in rows] == [
        ("outer", 1000, 0),
        ("first", 500, 1),
        ("inner", 498, 2),
        ("second", 500, 1),
        ("next", 2000, 0),
        ("one", 10_000, 0),
        ("two", 10_000, 0),
        ("three", 1000, 0),
    ]
    assert int(rows[0][1]) == EPOCH


@pytest.mark.campaign
def test_perfetto_tells_ranks_apart(engine, tmp_path):
    """Two ranks on hosts that gave their processes the same number."""
    ranks = [
        [traces.op(f"op {rank}", 0, 1), traces.kernel(f"kernel {rank}", 5, 10)] for rank in range(2)
    ]
    run = traces.opened_ranks(tmp_path, *ranks)
    (path,) = perfetto.write(run, tmp_path / "run.perfetto-trace")
    whose = """
        SELECT process.name, slice.name FROM slice JOIN process_track ON track_id = process_track.id
        JOIN process USING (upid) ORDER BY 1, 2
    """
    (rows,) = engine(path.read_bytes(), whose)
    assert rows == [
        ["rank 0", "kernel 0"],
        ["rank 0", "op 0"],
        ["rank 1", "kernel 1"],
        ["rank 1", "op 1"],
    ]


@pytest.mark.corpus
@pytest.mark.campaign  # the engine takes a quarter of a minute for each of three traces
@pytest.mark.parametrize(
    "name", ["gaunernst_bert-small-uncased__1016001", "Qwen_Qwen1.5-0.5B-Chat__1016005"]
)
def test_a_real_recording_loses_no_more_than_it_did_itself(name, corpus, engine, tmp_path):
    source = corpus / f"kineto/AMD-AGI__TraceLens/h100/{name}.json.gz"
    run = door.open(str(source))
    _, flows, lost = engine(gzip.decompress(source.read_bytes()), LOST)[0][0]
    events = sum(run.rows(table) for table in ("host_ops", "device_ops", "device_ranges"))
    (path,) = chrome.write(run, tmp_path / "run.json")
    slices, drawn, dropped = engine(path.read_bytes(), LOST)[0][0]
    # Host ranges that cross in the recording cross in the export; nothing else is lost.
    assert dropped <= lost
    assert slices == events + run.rows("memory_events") - dropped
    assert drawn <= flows
    (path,) = perfetto.write(run, tmp_path / "run.perfetto-trace")
    slices, _, dropped = engine(path.read_bytes(), LOST)[0][0]
    assert (slices, dropped) == (events, 0)
