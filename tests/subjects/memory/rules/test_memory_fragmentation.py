"""Free memory between blocks in use, from a tenth of the reserve on."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import entry, opened, segment, snapshot

MB = 1_000_000


def held(free: int) -> list[dict]:
    """A segment of 2 GB of which so many thousandths are free."""
    unit = 2 * MB
    return [segment(0, ((1000 - free) * unit, "active_allocated"), (free * unit, "inactive"))]


def test_a_tenth_is_free(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, snapshot([], held(100))),
        "memory-fragmentation",
        cost_bytes=200 * MB,
        gain_bytes=200 * MB,
        evidence=["1 of 1 segment partly used", "kept by 1.800 GB"],
        fix="expandable_segments:True",
    )


def test_just_below(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, snapshot([], held(99))), "memory-fragmentation")


def test_a_small_program_has_pieces_of_a_few_segments(tmp_path: Path) -> None:
    """26 of 134 MB: the allocator's segments are of 20 MiB, and no GPU lacks so little."""
    little = [segment(0, (108 * MB, "active_allocated"), (26 * MB, "inactive"))]
    assert_silent(opened(tmp_path, snapshot([], little)), "memory-fragmentation")


def test_what_the_peak_needed_is_not_lost(tmp_path: Path) -> None:
    events = [
        entry("segment_alloc", 0, 2_000 * MB, 1),
        entry("alloc", 0, 1_400 * MB, 2),
        entry("alloc", 1_400 * MB, 520 * MB, 3),
        entry("free_completed", 1_400 * MB, 520 * MB, 4),
    ]
    run = opened(tmp_path, snapshot(events, held(300)))
    assert_silent(run, "memory-fragmentation")


def test_blocks_that_are_not_listed_are_not_free(tmp_path: Path) -> None:
    """A snapshot may hold only some of a segment's blocks: 400 of 1,000 B are of no known state."""
    partial = segment(0, (100, "active_allocated"), (50, "inactive"))
    partial |= {"total_size": 1000, "active_size": 550}
    run = opened(tmp_path, snapshot([], [partial]))
    assert_silent(run, "memory-fragmentation")
    row = run.ask("fragmentation").row(0, named=True)
    assert (row["active_bytes"], row["free_bytes"], row["pinned_bytes"]) == (550, 50, 50)
