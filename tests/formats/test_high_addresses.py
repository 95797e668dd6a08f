"""Addresses of 2^63 and more: blocks there are told apart, and frees find their allocation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.core.units import wrap_address
from sightline.session import Session
from support import snapshots as s

BASE = 2**63 + (1 << 20)
PAGE = 4096


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1), (2**64, None)],
)
def test_an_address_keeps_its_64_bits(value: int, wrapped: int | None) -> None:
    assert wrap_address(value) == wrapped


def write_snapshot(folder: Path, base: int) -> Session:
    events = [
        s.alloc(base, PAGE, 1),
        s.alloc(base + PAGE, 2 * PAGE, 2),
        *s.free(base, PAGE, 3),
        s.alloc(base, PAGE, 4),
    ]
    blocks = s.segment(base, (PAGE, "active_allocated"), (2 * PAGE, "active_allocated"))
    return Session.of(s.opened(folder, s.snapshot(events, [blocks])))


@pytest.mark.parametrize("protocol_base", [BASE, 2**64 - (1 << 20)])
def test_a_snapshot(tmp_path: Path, protocol_base: int) -> None:
    high, low = (tmp_path / name for name in ("high", "low"))
    high.mkdir(), low.mkdir()
    run, other = write_snapshot(high, protocol_base), write_snapshot(low, 1 << 30)
    events = run.table("memory_events")
    assert events.filter(action="alloc").get_column("address").n_unique() == 2
    for table in ("memory_events", "memory_segments", "memory_blocks"):
        ours, theirs = (r.table(table).drop("address") for r in (run, other))
        assert ours.equals(theirs), table
    assert run.memory() == other.memory()
    assert "frees_missing" not in run.table("quality").get_column("kind").to_list()


def test_a_history(tmp_path: Path) -> None:
    entries = [{"action": "alloc", "addr": BASE + n, "size": 8, "time_us": n, "stream": 0,
                "frames": []} for n in range(2)]  # fmt: skip
    path = tmp_path / "memory.json"
    history = {"format": "sightline-torch-memory", "version": 1, "name": "b", "pid": 5}
    path.write_text(json.dumps({**history, "device_traces": [entries]}))
    events = sightline.open(str(path)).table("memory_events")
    assert events.get_column("address").to_list() == [BASE - 2**64, BASE + 1 - 2**64]


def test_rmm(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n"
        f"1,00:00:01.000000,allocate,{BASE:#x},256,0x0\n"
        f"1,00:00:02.000000,allocate,{BASE + 256:#x},512,0x0\n"
        f"1,00:00:03.000000,free,{BASE:#x},256,0x0\n"
    )
    run = sightline.open(str(path))
    assert run.table("memory_events").get_column("allocated_bytes").to_list() == [256, 768, 512]
    assert run.table("memory_events").get_column("address").n_unique() == 2
