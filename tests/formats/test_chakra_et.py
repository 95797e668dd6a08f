"""Chakra execution traces: what the schema says by hand, what we export, and the project's own."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import sightline
from support.command import sightline as command
from support.traces import kernel, op, write


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def attr(name: str, value: int | str | bool) -> bytes:
    told = (
        number(27, value)
        if isinstance(value, bool)
        else number(9, value)
        if isinstance(value, int)
        else block(29, value.encode())
    )
    return block(10, block(1, name.encode()) + told)


def node(ident: int, name: str, kind: int, long: int, waits: list[int], *attrs: bytes) -> bytes:
    deps = b"".join(map(varint, waits))
    return (
        number(1, ident)
        + block(2, name.encode())
        + number(3, kind)
        + (block(5, deps) if waits else b"")
        + number(7, long)
        + b"".join(attrs)
    )


def file_of(*nodes: bytes) -> bytes:
    return b"".join(varint(len(body)) + body for body in (block(1, b"0.0.4"), *nodes))


# The CPU asks for two kernels; the second waits for an all-reduce of 4 kB on another stream.
TRACE = file_of(
    node(1, "aten::mm", 4, 10, [], attr("is_cpu_op", True)),
    node(2, "gemm", 4, 30, [1], attr("is_cpu_op", False), attr("tid", 7)),
    node(
        3,
        "ncclKernel_AllReduce",
        7,
        50,
        [1],
        *(attr("is_cpu_op", False), attr("tid", 9), attr("comm_type", 0)),
        *(attr("comm_size", 4096), attr("pg_name", "dp")),
    ),
    node(4, "relu", 4, 5, [3], attr("is_cpu_op", False), attr("tid", 7)),
)


def test_nodes_begin_when_what_they_wait_for_is_over(tmp_path: Path) -> None:
    (tmp_path / "job.3.et").write_bytes(TRACE)
    run = sightline.open(str(tmp_path / "job.3.et"))
    ops = run.table("device_ops").sort("start_ns", "name")
    assert ops.select("name", "stream_id", "start_ns", "end_ns").rows() == [
        ("gemm", 7, 10_000, 40_000),
        ("ncclKernel_AllReduce", 9, 10_000, 60_000),
        ("relu", 7, 60_000, 65_000),
    ]
    assert run.table("host_ops").select("name", "start_ns", "end_ns").row(0) == (
        "aten::mm",
        0,
        10_000,
    )
    told = run.table("collectives").select("rank", "op", "group", "bytes_in").row(0)
    assert told == (3, "allreduce", "dp", 4096)
    assert "times_laid_out" in run.table("quality").get_column("kind").to_list()


def test_what_we_export_comes_back(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 30), kernel("gemm", 10, 40), kernel("relu", 80, 15, stream=9)]
    trace = write(tmp_path, events)
    done = command("export", trace, "--to", "chakra", "-o", tmp_path / "out.et")
    assert done.code == 0, done.err
    back = sightline.open(str(tmp_path / "out.0.et")).table("device_ops").sort("start_ns")
    first = back.get_column("start_ns")[0]
    rows = back.select("name", "start_ns", "end_ns").rows()
    shown = [(name, start - first, end - first) for name, start, end in rows]
    assert shown == [("gemm", 0, 40_000), ("relu", 70_000, 85_000)]


def test_nodes_in_a_circle_are_left_out(tmp_path: Path) -> None:
    device = attr("is_cpu_op", False)
    path = tmp_path / "circle.0.et"
    path.write_bytes(
        file_of(*(node(n, f"k{n}", 4, 5, [w], device) for n, w in ((1, 9), (2, 3), (3, 2))))
    )
    run = sightline.open(str(path))
    assert run.table("device_ops").get_column("name").to_list() == ["k1"]
    notes = dict(run.table("quality").select("kind", "count").rows())
    assert notes["damaged_nodes"] == 2


def test_nodes_without_a_duration_are_counted(tmp_path: Path) -> None:
    """Zero is not written: of such a node it is not known whether its duration was lost."""
    path = tmp_path / "short.0.et"
    device = attr("is_cpu_op", False)
    path.write_bytes(file_of(node(1, "k", 4, 5, [], device), node(2, "short", 4, 0, [1], device)))
    run = sightline.open(str(path))
    assert run.table("device_ops").get_column("name").to_list() == ["k"]
    assert dict(run.table("quality").select("kind", "count").rows())["no_durations"] == 1


@pytest.mark.parametrize("end", range(0, len(TRACE), 7))
def test_damage_is_an_error_or_a_note(tmp_path: Path, end: int) -> None:
    path = tmp_path / "cut.0.et"
    for name, data in (
        ("cut", TRACE[:end]),
        ("flipped", TRACE[:end] + bytes([TRACE[end] ^ 0x55]) + TRACE[end + 1 :]),
    ):
        path.write_bytes(data)
        try:
            run = sightline.open(str(path))
        except sightline.SightlineError as error:
            assert str(path) in str(error), name
        else:
            assert run.rows("device_ops") + run.rows("host_ops") <= 4


@pytest.mark.corpus
def test_durations_are_those_of_the_projects_own_json(corpus: Path) -> None:
    """mlcommons/chakra ships the same graph as JSON: id, runtime and is_cpu_op of each node."""
    folder = corpus / "chakra_et" / "mlcommons__chakra" / "tests" / "data"
    with tarfile.open(folder / "json_trace.tar.gz") as archive:
        graph = json.load(archive.extractfile("jsonData/chakra.0.json"))["workload_graph"]
    run = sightline.open(str(folder / "chakra.0.et"))
    for table, on_cpu in (("device_ops", False), ("host_ops", True)):
        rows = run.table(table).select("start_ns", "end_ns").rows()
        mine = sorted((end - start) // 1000 for start, end in rows)
        here = [n.get("runtime") for n in graph if n["is_cpu_op"] is on_cpu]
        assert mine == sorted(filter(None, here))
