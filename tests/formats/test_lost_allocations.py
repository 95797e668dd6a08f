"""Histories that lost an allocation: what nobody recorded is not counted twice, and it is said."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline._native import Ledger
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from support.snapshots import alloc, entry, free, opened, segment, snapshot

MB = 1 << 20
KEPT = [segment(0x7F0000000000, (20 * MB, "active_allocated"), (44 * MB, "inactive"))]
AT = 0x7F0000000000


def list_lost(run: sl.Session) -> list[int]:
    """The counts of what is said of lost allocations."""
    quality = run.table("quality")
    return quality.filter(quality["kind"] == "allocations_missing")["count"].to_list()


@pytest.mark.parametrize("offset", [20 * MB, 24 * MB], ids=["same address", "within"])
def test_an_allocation_lost_at_an_address_that_was_used(tmp_path: Path, offset: int) -> None:
    events = [
        alloc(AT, 20 * MB, 10),
        alloc(AT + 20 * MB, 16 * MB, 20),
        *free(AT + 20 * MB, 16 * MB, 30),
        # Here something allocated 12 MiB, and no event says so.
        *free(AT + offset, 12 * MB, 40),
    ]
    run = opened(tmp_path, snapshot(events, KEPT))
    sums = run.table("memory_events").get_column("allocated_bytes").to_list()
    assert sums == [20 * MB, 36 * MB, 20 * MB, 20 * MB, 20 * MB, 20 * MB]
    assert run.ask("memory_peak").item(0, "allocated_bytes") == 36 * MB
    assert list_lost(run) == [1]


def test_a_segment_of_the_history_holds_nothing_older(tmp_path: Path) -> None:
    events = [
        entry("segment_alloc", AT, 64 * MB, 5),
        alloc(AT, 20 * MB, 10),
        *free(AT + 40 * MB, 8 * MB, 40),
    ]
    run = opened(tmp_path, snapshot(events, KEPT))
    assert run.table("memory_events").get_column("allocated_bytes").max() == 20 * MB
    assert list_lost(run) == [1]


def test_a_block_from_before_the_history_is_counted_from_its_start(tmp_path: Path) -> None:
    events = [alloc(AT, 20 * MB, 10), *free(AT + 40 * MB, 8 * MB, 40)]
    run = opened(tmp_path, snapshot(events, KEPT))
    assert run.table("memory_events").get_column("allocated_bytes").to_list() == [
        28 * MB,
        20 * MB,
        20 * MB,
    ]
    assert list_lost(run) == []


def test_rmm_says_so_too(tmp_path: Path) -> None:
    lines = [
        "1,10:00:00.000000,allocate,0x1000,4096,0x0",
        "1,10:00:01.000000,free,0x1000,4096,0x0",
        "1,10:00:02.000000,free,0x1000,4096,0x0",
        "1,10:00:03.000000,allocate,0x9000,64,0x0",
        "1,10:00:04.000000,allocate,0x9000,64,0x0",
    ]
    (tmp_path / "log.dev0.csv").write_text("\n".join(lines) + "\n")
    run = sl.open(str(tmp_path / "log.dev0.csv"))
    assert run.table("memory_events").get_column("allocated_bytes").to_list() == [
        4096,
        0,
        0,
        64,
        64,
    ]
    assert list_lost(run) == [1]


def add_up_plainly(steps: list[tuple[int, int, int]]) -> int:
    """How many frees are of no known block and lie where the history has put something."""
    live: dict[int, int] = {}
    used: set[int] = set()
    lost = 0
    for action, address, size in steps:
        cells = set(range(address, address + size))
        if action == 0:
            live[address] = size
        elif address in live:
            del live[address]
        elif cells & used:
            lost += 1
            continue
        used |= cells
    return lost


@pytest.mark.parametrize("seed", range(40))
def test_lost_allocations_equal_those_of_a_plain_count(seed: int) -> None:
    chance = random.Random(seed)
    steps: list[tuple[int, int, int]] = []
    live: dict[int, int] = {}
    for _ in range(300):
        address, size = chance.randrange(400), chance.randrange(1, 30)
        if live and chance.random() < 0.45:
            address = chance.choice(list(live))
            size = live.pop(address)
            steps.append((2, address, size))
        elif chance.random() < 0.08:
            steps.append((2, address, size))
            live.pop(address, None)
        else:
            live[address] = size
            steps.append((0, address, size))
    ledger = Ledger(keeps_blocks=False)
    frame = pl.DataFrame(steps, ["action", "address", "bytes"], orient="row")
    columns = pl.select(device=pl.repeat(0, len(steps), dtype=pl.Int64))
    unpack_columns(ledger.add(pack_numbers(columns.hstack(frame))))
    assert ledger.lost_allocations == add_up_plainly(steps)
