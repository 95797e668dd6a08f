"""memory_outside: what the driver says is used, less what the allocator holds."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest

import sightline
from sightline.core.model.event_file import SUFFIX
from sightline.errors import MissingDataError
from sightline.record.inline.recorder import Recorder
from support.snapshots import entry, opened, segment, snapshot

MIB = 1 << 20
NEVER = [(20 * MIB, "inactive")]


def test_most_and_least_beside_the_allocator(tmp_path: Path) -> None:
    """20 MiB are held from second 10 on, 30 from second 20; the first sample comes before."""
    wall_us = time.time_ns() // 1000
    events = [
        entry("segment_alloc", 0, 20 * MIB, wall_us + 10_000_000),
        entry("segment_alloc", 32 * MIB, 10 * MIB, wall_us + 20_000_000),
    ]
    segments = [segment(0, *NEVER), segment(32 * MIB, (10 * MIB, "inactive"))]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank0-0123abcd-7.snapshot.pickle").write_bytes(
        pickle.dumps(snapshot(events, segments))
    )
    recorder = Recorder(folder / f"host-0123abcd.nvml-0{SUFFIX}")
    now = time.monotonic_ns()
    recorder.clock()
    for second, used in ((5, 1), (15, 120), (25, 150)):
        recorder.sample("memory used [bytes]", now + second * 10**9, float(used * MIB), 0)
    recorder.close()
    (row,) = sightline.open(str(folder)).ask("memory_outside").to_dicts()
    assert row | {"time_ns": 0} == {
        "rank": 0,
        "device_id": 0,
        "samples": 2,
        "time_ns": 0,
        "used_bytes": 150 * MIB,
        "reserved_bytes": 30 * MIB,
        "outside_bytes": 120 * MIB,
        "least_bytes": 100 * MIB,
    }


def test_without_samples_it_says_how_to_get_them(tmp_path: Path) -> None:
    run = opened(tmp_path, snapshot([entry("segment_alloc", 0, 20 * MIB, 1)], [segment(0, *NEVER)]))
    with pytest.raises(MissingDataError):
        run.ask("memory_outside")
