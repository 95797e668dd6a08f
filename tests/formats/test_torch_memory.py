"""The memory history as JSON: damage is refused or counted."""

from __future__ import annotations

import json

import pytest

import sightline as sl
from sightline.errors import DamagedError, SightlineError

FRAMES = [{"filename": "x.cpp", "name": "c"}, {"filename": "m.py", "line": 3, "name": "f"}]
ENTRY = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 7, "frames": FRAMES}


def document(*entries: object) -> str:
    return json.dumps(
        {
            "format": "sightline-torch-memory",
            "version": 1,
            "name": "b",
            "pid": 5,
            "device_traces": [[], list(entries)],
        }
    )


def test_an_allocation_and_its_place(tmp_path):
    path = tmp_path / "m.json"
    freed = {**ENTRY, "action": "free_completed", "time_us": 9, "frames": []}
    asked = {**ENTRY, "action": "free_requested", "time_us": 8}  # not a free yet
    path.write_text(document(ENTRY, asked, freed))
    run = sl.open(str(path))
    rows = run.table("memory_events").sort("time_ns")
    columns = ("time_ns", "device_id", "action", "bytes", "address", "pid")
    assert rows.select(columns).rows() == [
        (7000, 1, "alloc", 512, 4096, 5),
        (9000, 1, "free", 512, 4096, 5),
    ]
    assert run.ask("peak_blocks").select("place", "bytes").rows() == [("f (m.py:3)", 512)]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        3,
        "x",
        {},
        {**ENTRY, "size": -1},
        {**ENTRY, "size": "many"},
        {**ENTRY, "time_us": 2**63},
    ],
)
def test_entries_that_are_none_are_counted(tmp_path, bad):
    path = tmp_path / "m.json"
    path.write_text(document(ENTRY, bad))
    run = sl.open(str(path))
    assert run.rows("memory_events") == 1
    row = run.table("quality").row(0, named=True)
    assert (row["kind"], row["count"]) == ("damaged_entries", 1)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "m.json"
    whole = document(ENTRY, ENTRY)
    for length in range(0, len(whole) - 1, 23):
        path.write_text(whole[:length])
        with pytest.raises(SightlineError):
            sl.open(str(path))
    path.write_text('{"format": "sightline-torch-memory", "device_traces": 3}')
    with pytest.raises(DamagedError, match="not a complete memory history"):
        sl.open(str(path)).present()
