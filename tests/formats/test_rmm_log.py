"""RMM's event log: lines as its documentation and the Spark plugin's show them."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import DamagedError

LOG = """Thread,Time,Action,Pointer,Size,Stream
1979932,14:21:19.998533,allocate,0x30a000000,256,0x2
1979932,14:21:20:000001,allocate,0x30a000100,512,0x0
1980043,14:21:32.661875,free,0x30a000000,256,0x2
1980043,14:21:33.000000,allocate failure,(nil),4096,0x2
"""
NOON = ((14 * 60 + 21) * 60) * 10**9


def opened(folder: Path, text: str, name: str = "log.dev1.csv") -> sl.Run:
    (folder / name).write_text(text)
    return sl.open(str(folder / name))


def test_events_and_sums(tmp_path: Path) -> None:
    run = opened(tmp_path, LOG)
    columns = ("time_ns", "action", "address", "bytes", "allocated_bytes", "device_id", "stream_id")
    assert run.table("memory_events").select(*columns).rows() == [
        (NOON + 19_998_533_000, "alloc", 0x30A000000, 256, 256, 1, 2),
        (NOON + 20_000_001_000, "alloc", 0x30A000100, 512, 768, 1, 0),
        (NOON + 32_661_875_000, "free", 0x30A000000, 256, 512, 1, 2),
        (NOON + 33_000_000_000, "oom", None, 4096, 512, 1, 2),
    ]
    assert run.ask("memory_peak").item(0, "allocated_bytes") == 768


def test_midnight_is_no_step_back(tmp_path: Path) -> None:
    text = "1,23:59:59.000000,allocate,0x10,8,0x0\n1,00:00:01.000000,free,0x10,8,0x0\n"
    times = opened(tmp_path, text).table("memory_events").get_column("time_ns")
    assert times[1] - times[0] == 2 * 10**9


def test_cut_lines_are_counted(tmp_path: Path) -> None:
    run = opened(tmp_path, LOG[:-20])
    assert run.rows("memory_events") == 3
    said = {row["kind"]: row["count"] for row in run.table("quality").iter_rows(named=True)}
    assert said["damaged_lines"] == 1


def test_a_header_alone(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="it has no complete line"):
        opened(tmp_path, LOG.splitlines()[0] + "\n")
