"""Texts that older Kineto did not escape: their events are read, and so are all others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline

# As Kineto writes events, with a place for a name and for a group's name.
EVENT = """  {
    "ph": "X", "cat": "kernel", "name": %s, "pid": 0, "tid": 7,
    "ts": %d.500, "dur": 2.250,
    "args": {
      "External id": 5, "device": 0, "stream": 7, "correlation": %d,
      "Collective name": "allreduce", "In msg nelems": 8, "Process Group Name": %s,
      "Process Group Ranks": "[0, 1]", "dtype": "Float"
    }
  }"""
PLAIN = '"ncclDevKernel_AllReduce"'


def write(path: Path, *texts: tuple[str, str]) -> Path:
    events = [EVENT % (name, 10 * n, n, group) for n, (name, group) in enumerate(texts)]
    path.write_text('{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(events) + "\n]}")
    return path


@pytest.mark.parametrize(
    ("name", "group", "read_as"),
    [
        ('"nccl<"a", "b">(int)"', '"dp"', ('nccl<"a", "b">(int)', "dp")),
        (PLAIN, '"my "own" group"', (PLAIN.strip('"'), 'my "own" group')),
        (PLAIN, "default_pg", (PLAIN.strip('"'), "default_pg")),
        ('"back\\slash\\q"', '"dp"', ("back\\slash\\q", "dp")),
    ],
)
def test_texts_that_were_not_escaped(
    tmp_path: Path, name: str, group: str, read_as: tuple[str, str]
) -> None:
    path = write(tmp_path / "t.json", (PLAIN, '"dp"'), (name, group), (PLAIN, '"dp"'))
    with pytest.raises(ValueError, match=r"delimiter|escape|value"):
        json.loads(path.read_text())
    run = sightline.open(str(path))
    ops = run.table("device_ops").sort("start_ns")
    assert ops.select("name", "start_ns", "end_ns").rows() == [
        ("ncclDevKernel_AllReduce", 500, 2_750),
        (read_as[0], 10_500, 12_750),
        ("ncclDevKernel_AllReduce", 20_500, 22_750),
    ]
    groups = run.table("collectives").get_column("group").to_list()
    assert groups == ["dp", read_as[1], "dp"]
    notes = dict(run.table("quality").select("kind", "count").rows())
    assert notes["repaired_events"] == 1
    assert "damaged_events" not in notes


def test_the_last_event_is_repaired_too(tmp_path: Path) -> None:
    run = sightline.open(str(write(tmp_path / "t.json", (PLAIN, '"dp"'), ('"a"b"', '"dp"'))))
    assert run.table("device_ops").get_column("name").to_list()[-1] == 'a"b'


def test_what_is_whole_is_not_touched(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", (json.dumps('a "b"'), '"dp"'), (PLAIN, '"dp"'))
    run = sightline.open(str(path))
    assert run.table("device_ops").get_column("name").to_list()[0] == 'a "b"'
    assert "repaired_events" not in run.table("quality").get_column("kind").to_list()
