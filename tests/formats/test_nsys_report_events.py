"""Events of reports that few recordings have: graphs, memory use, JIT, OpenGL.

Their fields were read off reports without an export, by what must hold in them (docs/formats).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.session import Session
from support.reports import PROCESS, THREAD, Report

START = 500 + 1000 + 1_700_000_000_000_000_000  # the session's start on the wall clock
GL, GL_WORKLOAD, EXEC_CREATION, GRAPH_CREATION, JIT = 2, 5, 94, 95, 102


def host_call(report: Report, kind: int, klass: int, name: str, start: int, end: int,
              **more: object) -> None:  # fmt: skip
    fields = {1: start, 2: end, 3: 0, 6: klass, 7: report.text(name), 8: 0, 13: THREAD}
    report.event(kind, 108, fields | {int(k[1:]): v for k, v in more.items()})


def open_it(report: Report, folder: Path) -> Session:
    run = sightline.open(str(report.write(folder / "run.nsys-rep")))
    assert "unknown_events" not in run.table("quality").get_column("kind").to_list()
    return run


def test_a_graph_that_was_launched_whole(tmp_path: Path) -> None:
    report = Report()
    report.call("cudaGraphLaunch_v10000", start=100, end=110, correlation=9)
    host_call(report, 132, GRAPH_CREATION, "Graph Creation", 10, 10, f38={1: 1})
    host_call(report, 131, EXEC_CREATION, "GraphExec Creation", 20, 20, f37={1: 1, 2: 2})
    fields = {1: 150, 2: 950, 3: 9, 4: 0, 5: 1, 6: 7, 8: PROCESS, 107: {1: 1, 2: 2}}
    report.event(130, 107, fields)
    run = open_it(report, tmp_path)
    ops = run.table("device_ops").select("kind", "start_ns", "end_ns", "graph_id", "launch_id")
    launch = run.table("host_ops").filter(pl.col("name").str.contains("GraphLaunch"))
    assert ops.rows() == [("graph", START + 150, START + 950, 1, launch.item(0, "host_op_id"))]
    events = run.table("graph_events").select("start_ns", "name", "graph_id", "graph_exec_id")
    assert events.sort("start_ns").rows() == [
        (START + 10, "Graph Creation", 1, None),
        (START + 20, "GraphExec Creation", 1, 2),
    ]
    (device,) = run.ask("breakdown").to_dicts()
    assert (device["compute_ns"], device["idle_ns"]) == (800, 0)


def test_memory_that_is_allocated_and_freed(tmp_path: Path) -> None:
    report = Report()
    report.call("cudaMalloc_v3020", start=100, end=110, correlation=1)
    report.call("cudaFree_v3020", start=200, end=210, correlation=2)
    shared = {3: 0, 4: 1, 5: PROCESS, 6: 4096, 7: 0, 8: 512, 9: 2}
    report.event(117, 123, {1: 105, 2: 105, **shared, 10: 0, 12: 1})
    report.event(117, 123, {1: 205, 2: 205, **shared, 10: 1, 12: 2})
    events = open_it(report, tmp_path).table("memory_events")
    columns = ("time_ns", "action", "address", "bytes", "memory_kind", "host_op_id")
    assert events.select(columns[:4]).rows() == [
        (START + 105, "alloc", 4096, 512),
        (START + 205, "free", 4096, 512),
    ]
    assert events.get_column("memory_kind").to_list() == ["device", "device"]
    assert events.get_column("host_op_id").null_count() == 0


def test_a_compilation_at_run_time_without_its_path(tmp_path: Path) -> None:
    report = Report()
    told = {1: 1, 2: 1, 3: 0, 4: 1, 5: 1 << 30, 6: "/home/ann/.nv/ComputeCache/6"}
    host_call(report, 48, JIT, "JIT Cache Load", 100, 400, f40=told)
    run = open_it(report, tmp_path)
    calls = run.table("host_ops").select("layer", "name", "start_ns", "end_ns")
    assert calls.rows() == [("library", "JIT Cache Load", START + 100, START + 400)]
    assert "ann" not in str(run.table("host_ops").to_dicts())


def test_opengl_calls_and_what_the_gpu_did_of_them(tmp_path: Path) -> None:
    report = Report()
    host_call(report, 48, GL, "glClear", 100, 120, f21=0, f26=1)
    clear, swap = report.text("glClear"), report.text("glXSwapBuffers")
    fields = {1: 130, 2: 300, 3: 3, 6: GL_WORKLOAD, 7: clear, 8: 0, 10: 5, 12: swap, 13: THREAD}
    report.event(50, 108, fields | {21: 0, 26: 1})
    run = open_it(report, tmp_path)
    assert run.table("host_ops").select("layer", "name").rows() == [("library", "glClear")]
    ranges = run.table("device_ranges").select("name", "start_ns", "end_ns")
    assert ranges.rows() == [("glClear … glXSwapBuffers", START + 130, START + 300)]
    assert run.rows("device_ops") == 0


@pytest.mark.corpus
def test_of_a_real_report_what_is_freed_was_allocated(corpus: Path) -> None:
    """Every free has the address and the bytes of an allocation, and each its own call."""
    path = corpus / "nsys/ARTurleite6__CParTP/db64f23a/profile_output.nsys-rep"
    run = sightline.open(str(path))
    names = dict(run.table("host_ops").select("host_op_id", "name").rows())
    calls: dict[str, set[str]] = {"alloc": set(), "free": set()}
    live: dict[int, int] = {}
    events = run.table("memory_events").select("action", "address", "bytes", "host_op_id")
    for action, address, size, call in events.iter_rows():
        calls[action].add(names[call])
        if action == "alloc":
            assert address not in live
            live[address] = size
        else:
            assert live.pop(address) == size
    assert calls == {"alloc": {"cudaMalloc_v3020"}, "free": {"cudaFree_v3020"}}
    assert events.height == 1209


@pytest.mark.corpus
def test_of_a_real_report_graphs_do_not_overlap_on_their_stream(corpus: Path) -> None:
    """394 graphs, each launched by a call of its own, beside no kernel of the same stream."""
    run = sightline.open(str(corpus / "nsys/gametekker__mamba_versions/report1.nsys-rep"))
    ops = run.table("device_ops").sort("start_ns")
    graphs = ops.filter(kind="graph")
    assert graphs.height == 394
    names = dict(run.table("host_ops").select("host_op_id", "name").rows())
    assert {names[one].split("_")[0] for one in graphs.get_column("launch_id")} == {
        "cudaGraphLaunch"
    }
    stream = ops.filter(pl.col("stream_id").is_in(graphs.get_column("stream_id").unique()))
    assert (stream.get_column("start_ns").shift(-1) >= stream.get_column("end_ns")).all()
