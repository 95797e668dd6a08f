"""Chrome traces whose processes and threads say what is a device's, and those of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run


def name_process(pid: object, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def name_thread(pid: object, tid: object, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def span(pid: object, tid: object, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


def open_trace(tmp_path: Path, content: object) -> Run:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(content))
    return sightline.open(str(path))


def list_kinds(run: Run) -> list[str]:
    return run.table("quality").get_column("kind").to_list()


def test_streams_of_xla_are_a_gpus(tmp_path: Path) -> None:
    events = [
        name_process(1, "/device:GPU:3"),
        name_thread(1, 118, "Stream #7(MemcpyD2H,Compute)"),
        name_thread(1, 120, "Stream #9(Compute)"),
        name_thread(1, 130, "XLA Modules"),
        name_process(701, "/host:CPU"),
        name_thread(701, 5, "python"),
    ]
    for n in range(10):
        at = 1_000_000 + 500 * n
        events += [
            span(701, 5, "PjitFunction(train_step)", at + 0.125, 200.5),
            span(1, 130, "jit_train_step", at + 100.25, 350),
            span(1, 118, "loop_fusion", at + 100.25, 250.5, correlation_id=str(n)),
            span(1, 120, "ncclDevKernel_AllGather_RING_LL", at + 300.25, 150.0),
        ]
    run = open_trace(tmp_path, {"traceEvents": [*events, {}], "displayTimeUnit": "ns"})
    [row] = run.ask("breakdown").to_dicts()
    assert (row["device_id"], row["window_ns"]) == (3, 4_850_000)
    assert (row["compute_ns"], row["exposed_comm_ns"]) == (2_505_000, 995_000)
    assert set(run.table("device_ops").get_column("stream_id")) == {7, 9}
    assert run.table("device_ranges").get_column("name").to_list() == ["jit_train_step"] * 10
    assert run.rows("host_ops") == 10
    assert list_kinds(run) == []
    assert run.table("recordings").get_column("tool").item() == "XLA"


def test_a_tpus_lines_are_work_waits_and_copies(tmp_path: Path) -> None:
    events = [
        name_process(2, "/device:TPU:0"),
        name_thread(2, 1, "XLA Ops"),
        name_thread(2, 2, "Async XLA Ops"),
        span(2, 1, "copy-start.1", 0, 1),
        span(2, 1, "fusion.4", 1, 99),
        span(2, 1, "copy-done.1", 100, 700),
        span(2, 1, "all-reduce.2", 800, 100),
        span(2, 2, "copy-start.1", 0, 800),
    ]
    [row] = open_trace(tmp_path, {"traceEvents": events}).ask("breakdown").to_dicts()
    assert (row["compute_ns"], row["exposed_comm_ns"]) == (99_000, 100_000)
    assert (row["exposed_copy_ns"], row["idle_ns"]) == (701_000, 0)


def test_streams_of_an_npu_and_times_as_text(tmp_path: Path) -> None:
    events = [
        name_process(16, "Python"),
        name_process(48, "Ascend Hardware"),
        name_thread(48, 2, "Stream 2"),
        span(16, 100, "aten::mm", 0, 10),
        span(48, 2, "MatMulV2", 20, 30, **{"Task Type": "AI_CORE"}),
        span(48, 2, "EVENT_WAIT", 50, 40, **{"Task Type": "EVENT_WAIT_SQE"}),
        span(48, 2, "hcom_allReduce__1", 90, 10, **{"Task Type": "COMMUNICATION"}),
        span(48, 2, "MatMulV2", 100, 30, **{"Task Type": "AI_CORE"}),
    ]
    for event in events:
        if "ts" in event:
            event["ts"] = f"{1699529627231320 + event['ts']}.25"
    run = open_trace(tmp_path, events)
    [row] = run.ask("breakdown").to_dicts()
    assert row["window_ns"] == 110_000
    assert row["compute_ns"] == 60_000
    assert row["exposed_comm_ns"] == 10_000
    assert run.table("recordings").get_column("tool").item() == "torch_npu"


def test_an_npus_collectives_have_a_process_of_their_own(tmp_path: Path) -> None:
    """Its streams only wait meanwhile; the pieces on its links are no further work."""
    events = [
        name_process(48, "Ascend Hardware"), name_thread(48, 2, "Stream 2"),
        name_process(64, "Communication"), name_thread(64, 1, "Group 0 Communication"),
        name_thread(64, 2, "Plane 0"),
        span(48, 2, "MatMulV2", 0, 30), span(48, 2, "EVENT_WAIT", 30, 40),
        span(64, 1, "hcom_allReduce__1", 30, 40), span(64, 2, "Notify_Wait", 30, 10),
        span(64, 2, "Memcpy", 40, 30),
    ]  # fmt: skip
    run = open_trace(tmp_path, events)
    [row] = run.ask("breakdown").to_dicts()
    assert (row["compute_ns"], row["exposed_comm_ns"]) == (30_000, 40_000)
    assert (row["exposed_copy_ns"], row["unknown_ns"], row["idle_ns"]) == (0, 0, 0)
    assert run.table("devices").select("name", "vendor").rows() == [("Ascend NPU", "huawei")]


@pytest.mark.parametrize(
    ("category", "name", "graph"),
    [("mtia_ccp_events", "MTIA", "torch.compile(model)"), ("hpu_op", "HPU", "wrap_in_hpu_graph")],
)
def test_an_accelerator_of_a_category_of_its_own_is_no_gpu(
    tmp_path: Path, category: str, name: str, graph: str
) -> None:
    events: list[dict[str, Any]] = []
    for n in range(20):
        call = span(1, 1, "launch", 1000 * n, 20, correlation=n + 1)
        work = span(0, 5, "gemm", 1000 * n + 50, 300, device=0, correlation=n + 1)
        op = span(1, 1, "aten::mm", 1000 * n - 1, 100)
        events += [{**op, "cat": "cpu_op"}, {**call, "cat": "mtia_runtime"},
                   {**work, "cat": category}]  # fmt: skip
    run = open_trace(tmp_path, {"schemaVersion": 1, "traceEvents": events})
    assert run.table("devices").get_column("name").to_list() == [name]
    found = next(f for f in sightline.findings(run) if f.rule == "launch-bound")
    assert graph in str(found.fix)
    assert "CUDA" not in f"{found.title} {found.summary} {found.fix} {found.verify}"


def test_the_profiler_of_before_kineto(tmp_path: Path) -> None:
    events = []
    for n in range(5):
        at = 100 + 200 * n
        events += [
            span("CPU functions", 1, "add", at, 134),
            span("CUDA functions", 0, "add", at + 1, 134),
        ]
    run = open_trace(tmp_path, events)
    assert run.rows("device_ops") == 5
    assert run.table("host_ops").get_column("layer").to_list() == ["op"] * 5


@pytest.mark.parametrize("tool", ["uftrace", None])
def test_no_advice_of_pytorch_to_others(tmp_path: Path, tool: str | None) -> None:
    events = [span(1, 1, "main", 0, 20), span(1, 1, "count", 2, 3)]
    content: dict[str, Any] = {"traceEvents": events}
    if tool:
        content["metadata"] = {"version": f"{tool} v0.9.3"}
    run = open_trace(tmp_path, content)
    assert run.table("recordings").get_column("tool").item() == (tool or "Chrome trace")
    assert list_kinds(run) == ["no_device_ops"]
    assert run.table("quality").get_column("remedy").to_list() == [None]


def list_rounds(*, device: object = 1, host: bool = False) -> list[dict[str, Any]]:
    """Twelve rounds of a tracer that writes the operations' names alone: copy, kernel, copy."""
    kernel = "void scale<float, 4>(float*, int)"
    events = []
    for n in range(12):
        at = 1_000 * n
        events += [
            span(device, 7, "[MEMCPY] HtoD", at, 100, correlationId=3 * n),
            span(device, 7, kernel, at + 110, 20, correlationId=3 * n + 1),
            span(device, 7, "[MEMCPY] DtoH", at + 140, 300, correlationId=3 * n + 2),
        ]
    return [*events, span(device, 7, "prepare", 200, 10)] if host else events


def test_operations_without_category_are_a_gpus_by_their_names(tmp_path: Path) -> None:
    run = open_trace(tmp_path, list_rounds())
    ops = run.table("device_ops")
    assert ops.height == 36
    assert ops.get_column("kind").value_counts().sort("kind").rows() == [
        ("kernel", 12),
        ("memcpy", 24),
    ]
    assert set(ops.get_column("copy_kind").drop_nulls()) == {"HtoD", "DtoH"}
    idle = next(f for f in sightline.findings(run) if f.rule == "gpu-idle")
    assert idle.cost_ns == 11 * 560_000 + 12 * 20_000
    assert "in 11 gaps between [MEMCPY] DtoH and [MEMCPY] HtoD" in idle.evidence[-1]


def test_a_thread_that_does_something_else_as_well_is_no_gpus(tmp_path: Path) -> None:
    assert open_trace(tmp_path, list_rounds(host=True)).rows("device_ops") == 0


def test_operators_within_operators_are_one_work(tmp_path: Path) -> None:
    """The innermost that takes nearly all is the work; what that one starts for moments is its."""
    events = [span("CUDA functions", 0, "conv2d", 0, 1000)]
    for n in range(2):
        at = 500 * n
        events += [
            span("CUDA functions", 0, "convolution", at + 1, 498),
            span("CUDA functions", 0, "cudnn_convolution", at + 2, 480),
            span("CUDA functions", 0, "contiguous", at + 3, 5),
        ]
    events.append(span("CUDA functions", 0, "relu", 1100, 40))
    ops = open_trace(tmp_path, events).table("device_ops").select("name", "start_ns", "end_ns")
    assert ops.rows() == [
        ("cudnn_convolution", 2_000, 482_000),
        ("cudnn_convolution", 502_000, 982_000),
        ("relu", 1_100_000, 1_140_000),
    ]


def name_tf_processes(*names: str) -> list[dict[str, Any]]:
    return [name_process(pid, name) for pid, name in enumerate(names)]


@pytest.mark.parametrize("prefix", ["/device:GPU:1", "/job:localhost/replica:0/task:0/gpu:1"])
def test_streams_of_tensorflows_timeline(tmp_path: Path, prefix: str) -> None:
    """Each stream has a process, and another two have the same work once more."""
    events = [
        *name_tf_processes(
            f"{prefix}/stream:22 Compute",
            f"{prefix}/stream:20 Compute",
            f"{prefix}/memcpy Compute",
            f"{prefix}/stream:all Compute",
            "/job:localhost/replica:0/task:0/device:GPU:1 Compute",
        ),
        span(4, 0, "MatMul", 100, 50, op="MatMul"),
        *(span(pid, 0, "MatMul#id=1#", 140, 30, op="MatMul") for pid in (1, 3)),
        *(span(pid, 0, "MEMCPYDtoH", 180, 5, op="MEMCPYDtoH") for pid in (0, 2)),
    ]
    run = open_trace(tmp_path, {"traceEvents": events})
    ops = run.table("device_ops").select("device_id", "stream_id", "kind", "name", "copy_kind")
    assert sorted(ops.rows()) == [
        (1, 20, "kernel", "MatMul", None),
        (1, 22, "memcpy", "MEMCPYDtoH", "DtoH"),
    ]
    assert run.table("host_ops").select("name", "layer").rows() == [("MatMul", "op")]
    assert run.table("recordings").get_column("tool").to_list() == ["TensorFlow timeline"]


def test_tensorflows_streams_together(tmp_path: Path) -> None:
    """Where no stream has a process of its own, kernels and copies are in two."""
    events = [
        *name_tf_processes("/gpu:0/stream:all Compute", "/gpu:0/memcpy Compute"),
        span(0, 0, "Conv2D", 140, 30),
        span(1, 0, "MEMCPYHtoD", 180, 5),
    ]
    run = open_trace(tmp_path, {"traceEvents": events})
    ops = run.table("device_ops").select("device_id", "kind", "name")
    assert sorted(ops.rows()) == [(0, "kernel", "Conv2D"), (0, "memcpy", "MEMCPYHtoD")]
