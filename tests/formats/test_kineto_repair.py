"""Texts that older Kineto did not escape: their events are read, and so are all others."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
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


WINDOWS = (
    r"torch\cuda\__init__.py(219): _lazy_init",
    r"C:\Users\user\new\x.py(3): step",
    r"torch\nn\functional.py(5): relu",
)


def test_paths_of_windows_are_kept(tmp_path: Path) -> None:
    """Kineto writes their backslashes as they are: some make an escape, some are none."""
    events = ",".join(
        f'{{"ph":"X","cat":"python_function","name":"{name}","pid":1,"tid":1,"ts":{10 * n},"dur":5,'
        f'"args":{{"Python id":{n}}}}}'
        for n, name in enumerate(WINDOWS)
    )
    path = tmp_path / "trace.json"
    path.write_text(f'{{"schemaVersion":1,"traceEvents":[{events}]}}')
    run = sightline.open(str(path))
    assert run.table("host_ops").get_column("name").to_list() == list(WINDOWS)
    assert "damaged_events" not in run.table("quality").get_column("kind")


@pytest.mark.parametrize("number", ["inf", "-nan", "-nan(ind)", "1.#INF", "Infinity", "nan"])
def test_a_number_that_is_none_costs_no_event(tmp_path: Path, number: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"gpu_memcpy",'
        '"name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":75,"dur":4,"args":'
        f'{{"device":0,"stream":7,"bytes":200,"memory bandwidth (GB/s)": {number}}}}}]}}'
    )
    run = sightline.open(str(path))
    assert run.table("device_ops").select("copy_kind", "bytes").rows() == [("HtoD", 200)]


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ('],"INFO": ["stream = 7 "event_id": 64"],"WARNING": ["x"]}', "damaged_header"),
        ('],"INFO": ["stream = 7 ', "truncated"),
    ],
)
def test_damage_behind_the_events_is_no_cut(tmp_path: Path, tail: str, kind: str) -> None:
    event = (
        '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":75,"dur":4,"args":{"device":0}}'
    )
    path = tmp_path / "trace.json"
    path.write_text(f'{{"schemaVersion":1,"traceEvents":[{event}{tail}')
    run = sightline.open(str(path))
    kinds = run.table("quality").get_column("kind").to_list()
    assert {"damaged_header", "truncated"} & set(kinds) == {kind}


def test_many_damages_are_one_row(tmp_path: Path) -> None:
    event = '{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents":[' + f'{event},{{"ph":"X",name":2}},' * 9 + f"{event}]}}")
    quality = sightline.open(str(path)).table("quality")
    rows = quality.filter(pl.col("kind") == "damaged_events").select("count").rows()
    assert rows == [(9,)]
