"""Replayed kernels tied to their capture by the ids of their nodes, whatever order they ran in."""

from __future__ import annotations

from pathlib import Path

from support.command import sightline as command
from support.exports import opened
from synth_nsys import Export, gtid

# What is captured: range and kernel. Of the second stream's the first one begins last.
NODES = (
    ("embed_tokens", "embedding_kernel"),
    ("layers.0.attention", "flash_fwd_kernel"),
    ("layers.0.shared_expert", "gemm_shared"),
    ("layers.0.experts", "fused_moe_kernel"),
    ("lm_head", "gemm_head"),
)
RUN_AS = (0, 1, 3, 2, 4)
CAPTURED, INSTANTIATED = 100, 500


def make_export(*, pid: int = 7, events: bool = True) -> Export:
    """A capture in ranges, a graph made of it, and one step that replays it."""
    e = Export()
    e.api("cudaStreamBeginCapture_v10000", 10, 20, 1, pid=pid, tid=pid)
    for n, (name, _) in enumerate(NODES):
        at = 100 + 100 * n
        e.range(name, at, at + 80, pid=pid, tid=pid)
        e.api("cudaLaunchKernel_v7000", at + 10, at + 30, 10 + n, pid=pid, tid=pid)
        if events:
            add_node(e, at + 20, pid, 1, CAPTURED + n)
    e.api("cudaStreamEndCapture_v10000", 700, 710, 2, pid=pid, tid=pid)
    e.api("cudaGraphInstantiate_v12000", 720, 790, 3, pid=pid, tid=pid)
    for n in range(len(NODES) if events else 0):
        add_node(e, 730 + n, pid, 2, INSTANTIATED + n, CAPTURED + n)
    e.range("execute_context_0(0)_generation_8(8)", 1_000, 1_100, pid=pid, tid=pid)
    e.api("cudaGraphLaunch_v10000", 1_010, 1_050, 4, pid=pid, tid=pid)
    for place, n in enumerate(RUN_AS):
        at = 2_000 + 100 * place
        e.kernel(NODES[n][1], at, at + 50, 4, pid=pid, stream=7 + n % 2,
                 graphNodeId=INSTANTIATED + n, graphId=2)  # fmt: skip
    return e


def add_node(e: Export, at: int, pid: int, graph: int, node: int, of: int | None = None) -> None:
    name = e.text("Graph Node Creation")
    e.add("CUDA_GRAPH_NODE_EVENTS", start=at, end=at + 1, globalTid=gtid(pid, pid), nameId=name,
          graphId=graph, graphNodeId=node, originalGraphNodeId=of)  # fmt: skip


def test_each_kernel_has_the_range_of_its_capture(tmp_path: Path) -> None:
    rows = opened(tmp_path, make_export()).attribute_graphs()
    told = rows.select("kernel", "module", "capture", "confidence").rows()
    assert told == [(NODES[n][1], NODES[n][0], "graph 1", "high") for n in RUN_AS]


def test_nodes_of_another_process_are_not_taken(tmp_path: Path) -> None:
    """Each process counts its nodes anew: the same numbers stand for other work."""
    export = make_export(events=False)
    for n in range(len(NODES)):
        export.range("of another process", 100 + 100 * n, 180 + 100 * n, pid=9, tid=9)
        add_node(export, 120 + 100 * n, 9, 1, INSTANTIATED + n)
    rows = opened(tmp_path, export).attribute_graphs()
    assert rows["module"].to_list() == [None] * len(NODES)
    assert set(rows["confidence"]) == {"low"}


def test_a_node_whose_capture_was_not_recorded_is_said_so(tmp_path: Path) -> None:
    export = make_export(events=False)
    for n in range(len(NODES)):
        if n != 2:
            add_node(export, 120 + 100 * n, 7, 1, CAPTURED + n)
        add_node(export, 730 + n, 7, 2, INSTANTIATED + n, CAPTURED + n)
    rows = opened(tmp_path, export).attribute_graphs()
    (lost,) = rows.filter(kernel="gemm_shared").select("module", "confidence").rows()
    assert lost == (None, "low")
    assert rows.filter(confidence="high").height == len(NODES) - 1


def test_the_command_needs_no_second_recording(tmp_path: Path) -> None:
    path = make_export().write(tmp_path / "run.sqlite")
    outcome = command("graph", path)
    assert outcome.code == 0, outcome.err
    assert "5 of 5 replayed operations are matched to their capture" in outcome.out
    assert "layers.0.experts" in outcome.out
