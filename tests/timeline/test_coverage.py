"""Launches whose kernels were lost: how many, of how many, and which are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.units import format_note
from sightline.timeline.coverage import note_lost_kernels
from support.traces import kernel, launch, op, write


def record(folder: Path, has_kernel: list[bool], **call: Any) -> sightline.Session:
    """A launch every 100 µs, and a kernel where it has one."""
    events = [op("step", 0, 100 * len(has_kernel))]
    for number, has in enumerate(has_kernel):
        events.append(launch(100 * number, 5, number + 1, **call))
        if has:
            events.append(kernel("k", 100 * number + 20, 50, number + 1))
    return sightline.open(str(write(folder, events)))


@pytest.mark.parametrize(
    ("lost", "severity"),
    [(range(30, 70), "warning"), (range(40), "warning"), (range(50, 52), "info")],
)
def test_they_are_counted(tmp_path: Path, lost: range, severity: str) -> None:
    run = record(tmp_path, [n not in lost for n in range(100)])
    note = note_lost_kernels(run)
    assert note is not None and (note.count, note.severity) == (len(lost), severity)
    assert note.text.startswith("of 100 kernel launches have no kernel")
    (said,) = [one for one in run.report()["limits"] if one["kind"] == "lost_kernels"]
    assert said["count"] == len(lost)


def test_one_lost_kernel_is_told_in_the_singular(tmp_path: Path) -> None:
    note = note_lost_kernels(record(tmp_path, [n != 5 for n in range(100)]))
    assert note is not None and format_note(note.count, note.text).startswith(
        "1 of 100 kernel launches has no kernel in the recording: the profiler lost it, and"
    )


def test_what_ran_behind_the_recordings_end_is_no_loss(tmp_path: Path) -> None:
    run = record(tmp_path, [n < 90 for n in range(100)])
    assert note_lost_kernels(run) is None


def test_kernels_without_a_launch_may_be_theirs(tmp_path: Path) -> None:
    events = [op("step", 0, 1000)]
    for number in range(10):
        events.append(launch(100 * number, 5, number + 1))
        linked = number + 1 if number % 2 == 0 else None
        events.append(kernel("k", 100 * number + 20, 50, linked))
    assert note_lost_kernels(sightline.open(str(write(tmp_path, events)))) is None
