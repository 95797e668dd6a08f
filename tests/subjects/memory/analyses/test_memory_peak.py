"""The highest moment of each device: the first of equal ones."""

from __future__ import annotations

from pathlib import Path

from support.snapshots import alloc, free, opened, segment, snapshot
from support.training import train


def test_the_first_of_two_equal_peaks(tmp_path: Path) -> None:
    events = [alloc(1, 30, 1), *free(1, 30, 2), alloc(2, 30, 3), *free(2, 30, 4)]
    peak = opened(tmp_path, snapshot(events, [])).ask("memory_peak").row(0, named=True)
    assert (peak["time_ns"], peak["event"], peak["allocated_bytes"]) == (1_000, 0, 30)
    assert (peak["blocks"], peak["untold_bytes"], peak["largest_bytes"]) == (1, 0, 30)


def test_of_training(tmp_path: Path) -> None:
    # In step 1: parameter 100, state 200, gradient 100, and the activation of 40 that it needs.
    peak = opened(tmp_path, train()).ask("memory_peak").row(0, named=True)
    assert (peak["allocated_bytes"], peak["time_ns"]) == (440, 23_000)


def test_what_was_there_before_is_counted(tmp_path: Path) -> None:
    found = [segment(64, (512, "active_allocated")), segment(1, (30, "active_allocated"))]
    peak = opened(tmp_path, snapshot([alloc(1, 30, 1)], found)).ask("memory_peak")
    assert peak.select("allocated_bytes", "blocks", "untold_bytes").row(0) == (542, 2, 0)


def test_what_was_reserved_before_the_first_event_is_in_the_peak(tmp_path: Path) -> None:
    """A segment of 512 was there; one of 64 came with the events."""
    found = [segment(64, (512, "active_allocated")), segment(1024, (64, "active_allocated"))]
    came = {"action": "segment_alloc", "addr": 1024, "size": 64, "stream": 0, "time_us": 1}
    events = [{**alloc(1024, 64, 1), **came}, alloc(1024, 64, 2)]
    peak = opened(tmp_path, snapshot(events, found)).ask("memory_peak").row(0, named=True)
    assert (peak["reserved_bytes"], peak["most_reserved_bytes"]) == (576, 576)
