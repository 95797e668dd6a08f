"""Which thread launches: the one that does most, and who only helps."""

from __future__ import annotations

from pathlib import Path

from sightline.timeline.launching import list_helpers, list_launching_threads
from support import exports
from synth_nsys import Export


def test_a_helper_has_less_than_a_tenth_of_the_launches(tmp_path: Path) -> None:
    """Of three threads with 30, 3 and 2 launches the last helps."""
    export, number = Export(), 0
    for tid, launches in ((9, 30), (7, 3), (8, 2)):
        for _ in range(launches):
            number += 1
            export.api("cudaLaunchKernel", 100 * number, 100 * number + 10, number, tid=tid)
            export.kernel("k", 100 * number + 20, 100 * number + 90, number)
    run = exports.opened(tmp_path, export)
    threads = list_launching_threads(run)
    assert threads.select("tid", "launches", "main_tid", "is_helper").rows() == [
        (9, 30, 9, False), (7, 3, 9, False), (8, 2, 9, True),
    ]  # fmt: skip
    assert list_helpers(run).select("tid", "main_tid").rows() == [(8, 9)]
