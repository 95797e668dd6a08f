"""Blocks from events: in order of time where the recording has none of its own."""

from __future__ import annotations

from pathlib import Path

import sightline as sl
from sightline.subjects.memory.allocations import follow_allocations, select_live

# Two threads, the second one's events after the first one's, as a profiler writes them.
LOG = """1,00:00:01.000000,allocate,0x10,8,0x0
1,00:00:04.000000,allocate,0x10,16,0x0
2,00:00:02.000000,free,0x10,8,0x0
2,00:00:03.000000,allocate,0x20,4,0x0
"""


def test_threads_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    blocks = follow_allocations(sl.open(str(path))).blocks
    # By the number of the event in order of time, from 0.
    assert blocks.select("address", "bytes", "allocated", "released").rows() == [
        (16, 8, 0, 1),
        (32, 4, 2, None),
        (16, 16, 3, None),
    ]
    assert select_live(blocks, 2).get_column("bytes").to_list() == [4]
    assert select_live(blocks, 3).get_column("bytes").to_list() == [4, 16]


def test_an_event_without_an_address_is_no_block(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG + "2,00:00:05.000000,allocate failure,(nil),9,0x0\n")
    assert follow_allocations(sl.open(str(path))).blocks.height == 3
