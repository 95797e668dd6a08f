"""What the Kineto importer makes of events: small traces in, rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from support.simulated import DIALECT_NAMES, Simulated, simulated
from support.traces import (
    PID,
    TID,
    Event,
    call,
    copy,
    event,
    flow,
    host,
    kernel,
    launch,
    limits,
    op,
    opened,
    step,
    write,
)


def only(run: Run, table: str, **where: Any) -> dict[str, Any]:
    (row,) = run.table(table).filter(**where).to_dicts() if where else run.table(table).to_dicts()
    return row


# -- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "dur", "start_ns", "end_ns"),
    [
        (10, 5, 10_000, 15_000),
        ("10.5", "0.25", 10_500, 10_750),
        ("1719853884000001.234", "1.002", 1719853884000001234, 1719853884000002236),
        ("0.0005", "0.0015", 0, 2),
        ("1e3", "1e0", 1_000_000, 1_001_000),
    ],
)
def test_times(tmp_path: Path, ts: Any, dur: Any, start_ns: int, end_ns: int) -> None:
    row = only(opened(tmp_path, [kernel("k", ts, dur)]), "device_ops")
    assert (row["start_ns"], row["end_ns"]) == (start_ns, end_ns)


def test_base_time_is_added_to_all_times(tmp_path: Path) -> None:
    base = 1_767_189_312_000_000_000
    events = [kernel("k", "1.5", 1), op("aten::mm", "0.5", 9), step(1, 0, 10)]
    run = opened(tmp_path, events, baseTimeNanoseconds=base)
    assert only(run, "device_ops")["start_ns"] == base + 1_500
    assert only(run, "host_ops", name="aten::mm")["end_ns"] == base + 9_500
    assert only(run, "recordings")["clock_offset_ns"] == base


@pytest.mark.parametrize("base", ["soon", -5, 2**62, None, 1.5, True])
def test_base_time_that_is_none_is_ignored(tmp_path: Path, base: Any) -> None:
    run = opened(tmp_path, [kernel("k", 1, 1)], baseTimeNanoseconds=base)
    assert only(run, "device_ops")["start_ns"] == 1_000


def test_negative_duration_is_left_out_and_counted(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("good", 1, 1), kernel("bad", 5, -1), op("bad", 5, "-0.5")])
    assert only(run, "device_ops")["name"] == "good"
    assert limits(run)["negative_durations"] == 2


@pytest.mark.parametrize("ts", [None, "abc", True, [1], {}, "NaN", "Infinity", 10**30, "1e300"])
def test_time_that_is_none_is_left_out_and_counted(tmp_path: Path, ts: Any) -> None:
    run = opened(tmp_path, [kernel("good", 1, 1), kernel("bad", ts, 1)])
    assert only(run, "device_ops")["name"] == "good"
    assert limits(run)["not_events"] == 1


def test_times_near_the_end_of_int64(tmp_path: Path) -> None:
    late = 2**63 // 1000 - 10
    run = opened(tmp_path, [kernel("a", late, 2), kernel("b", late, 10**4)])
    assert run.table("device_ops").get_column("name").to_list() == ["a"]


# -- device operations --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cat", "kind"),
    [
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("concurrent_kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("Memset", "memset"),
        ("mtia_ccp_events", "kernel"),
    ],
)
def test_device_categories_of_every_generation(tmp_path: Path, cat: str, kind: str) -> None:
    assert only(opened(tmp_path, [kernel("k", 1, 1, cat=cat)]), "device_ops")["kind"] == kind


def test_kernel_arguments(tmp_path: Path) -> None:
    event = kernel(
        "gemm",
        1,
        1,
        77,
        device=3,
        stream=9,
        context=1,
        grid=[4, 5, 6],
        block=[32, 2, 1],
        **{"registers per thread": 96, "shared memory": 49152, "graph id": 5, "graph node id": 6},
    )
    row = only(opened(tmp_path, [event]), "device_ops")
    want = {
        "device_id": 3,
        "stream_id": 9,
        "context_id": 1,
        "correlation_id": 77,
        "grid_x": 4,
        "grid_y": 5,
        "grid_z": 6,
        "block_x": 32,
        "block_y": 2,
        "block_z": 1,
        "registers_per_thread": 96,
        "shared_bytes": 49152,
        "graph_id": 5,
        "graph_node_id": 6,
    }
    assert {name: row[name] for name in want} == want


def test_device_and_stream_from_the_event_where_arguments_lack_them(tmp_path: Path) -> None:
    events = [
        event("Kernel", "k", 1, 1, pid=2, tid="stream 7"),
        event("kernel", "lost", 5, 1, pid=None, tid=None),
    ]
    run = opened(tmp_path, events)
    rows = run.table("device_ops").select("device_id", "stream_id").rows()
    assert rows == [(2, 7), (0, None)]
    assert limits(run)["without_device"] == 1


@pytest.mark.parametrize(
    ("name", "more", "want"),
    [
        ("Memcpy HtoD (Pinned -> Device)", {}, ("HtoD", "pinned", "device")),
        ("Memcpy DtoH (Device -> Pageable)", {}, ("DtoH", "device", "pageable")),
        ("Memcpy DtoD (Device -> Device)", {}, ("DtoD", "device", "device")),
        ("CopyHostToDevice", {}, ("HtoD", None, None)),
        ("copy", {"kind": "DeviceToHost"}, ("DtoH", None, None)),
        ("Memcpy PtoP (Device -> Device)", {}, ("PtoP", "device", "device")),
        ("something", {}, (None, None, None)),
    ],
)
def test_copy_direction(tmp_path: Path, name: str, more: dict[str, Any], want: Any) -> None:
    row = only(opened(tmp_path, [copy(name, 1, 1, 4096, **more)]), "device_ops")
    assert (row["copy_kind"], row["src_kind"], row["dst_kind"]) == want
    assert row["bytes"] == 4096


def test_annotations_on_the_device_are_no_device_operations(tmp_path: Path) -> None:
    mirror = event("gpu_user_annotation", "step", 0, 100, pid=0, tid=7)
    run = opened(tmp_path, [kernel("k", 1, 1), mirror])
    assert only(run, "device_ops")["name"] == "k"
    row = only(run, "device_ranges")
    assert (row["device_id"], row["stream_id"], row["name"]) == (0, 7, "step")


# -- launches -----------------------------------------------------------------------------------


def launch_names(run: Run) -> dict[str, str | None]:
    calls = dict(run.table("host_ops").select("host_op_id", "name").rows())
    ops = run.table("device_ops").select("name", "launch_id").rows()
    return {name: calls.get(launch) for name, launch in ops}


def test_launch_by_correlation(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            call("cudaLaunchKernel", 0, 2, 1),
            call("cudaMemcpyAsync", 3, 2, 2),
            kernel("k", 10, 1, 1),
            copy("Memcpy", 12, 1, 8, correlation=2),
            kernel("x", 20, 1, 3),
        ],
    )
    assert launch_names(run) == {"k": "cudaLaunchKernel", "Memcpy": "cudaMemcpyAsync", "x": None}
    assert limits(run)["unmatched_launches"] == 1


def test_driver_call_inside_a_runtime_call_with_the_same_number(tmp_path: Path) -> None:
    """The outer call is the program's own."""
    run = opened(
        tmp_path,
        [
            host("cuda_driver", "cuLaunchKernel", 1, 2, correlation=1),
            call("cudaLaunchKernel", 0, 5, 1),
            kernel("k", 10, 1, 1),
        ],
    )
    assert launch_names(run) == {"k": "cudaLaunchKernel"}


def test_launch_by_arrow_where_there_is_no_correlation(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            call("hipLaunchKernel", 0, 2, 5),
            kernel("k", 10, 1),
            kernel("far", 30, 1),
            flow("s", 44, (PID, TID), 0),
            flow("f", 44, (0, 7), 10),
            flow("f", 45, (0, 7), 30),
        ],
    )
    assert launch_names(run) == {"k": "hipLaunchKernel", "far": None}


def test_launch_by_arrow_where_calls_have_no_numbers_either(tmp_path: Path) -> None:
    """As PyTorch writes on ROCm with roctracer: arrows alone tie calls to their kernels."""
    run = opened(
        tmp_path,
        [
            call("hipExtModuleLaunchKernel", 0, 3),
            call("hipExtModuleLaunchKernel", 7, 3),
            kernel("a", 10, 1),
            kernel("b", 12, 1),
            flow("s", 58, (PID, TID), 0),
            flow("s", 60, (PID, TID), 7),
            flow("f", 58, (0, 7), 10),
            flow("f", 60, (0, 7), 12),
        ],
    )
    assert launch_names(run) == dict.fromkeys("ab", "hipExtModuleLaunchKernel")
    starts = run.table("host_ops").get_column("start_ns")
    launches = run.table("device_ops").sort("start_ns").get_column("launch_id")
    assert starts.gather(launches).to_list() == [0, 7_000]


def test_arrows_between_kernels_of_a_graph_launch_nothing(tmp_path: Path) -> None:
    """Since 2.13 ac2g also says what waits for what in a graph, with ids of its own."""
    run = opened(
        tmp_path,
        [
            call("cudaGraphLaunch", 0, 2, 5),
            kernel("first", 10, 1, 5),
            kernel("second", 30, 1),
            flow("s", 5, (PID, TID), 0),
            flow("f", 5, (0, 7), 10),
            flow("s", 900, (0, 7), 10),
            flow("f", 900, (0, 7), 30),
        ],
    )
    assert launch_names(run) == {"first": "cudaGraphLaunch", "second": None}


def test_hardware_counters_are_a_gpus_and_have_units(tmp_path: Path) -> None:
    """Since 2.13: their process is a text, and the value's key is empty."""
    of_gpu = {"ph": "C", "pid": "GPU 3 Counters", "tid": 0}
    run = opened(
        tmp_path,
        [
            {**of_gpu, "name": "SM Active (%)", "ts": 21, "args": {"": 55.5}},
            {**of_gpu, "name": "sm__cycles_active.avg", "ts": 22, "args": {"": 7}},
            {"ph": "C", "pid": 1, "tid": 0, "name": "queue (of 8)", "ts": 23, "args": {"n": 2}},
        ],
    )
    found = run.table("counters").select("metric", "unit", "device_id", "time_ns", "value").rows()
    assert found == [
        ("SM Active", "%", 3, 21_000, 55.5),
        ("sm__cycles_active.avg", None, 3, 22_000, 7.0),
        ("queue (of 8): n", None, 1, 23_000, 2.0),
    ]


def test_operators_and_annotations_launch_nothing(tmp_path: Path) -> None:
    run = opened(tmp_path, [op("aten::mm", 0, 5, correlation=1), kernel("k", 10, 1, 1)])
    assert launch_names(run) == {"k": None}


# -- the host -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cat", "name", "layer"),
    [
        ("cpu_op", "aten::mm", "op"),
        ("Operator", "aten::mm", "op"),
        ("user_annotation", "forward", "annotation"),
        ("user_annotation", "ProfilerStep#3", "step"),
        ("Operator", "ProfilerStep#3", "step"),
        ("python_function", "train.py(3): f", "python"),
        ("cuda_runtime", "cudaFree", "runtime"),
        ("Runtime", "cudaFree", "runtime"),
        ("cuda_driver", "cuLaunchKernel", "driver"),
        ("overhead", "Buffer Flush", "overhead"),
        ("mystery", "?", "other"),
    ],
)
def test_host_categories_of_every_generation(
    tmp_path: Path, cat: str, name: str, layer: str
) -> None:
    run = opened(tmp_path, [host(cat, name, 1, 1)])
    assert only(run, "host_ops")["layer"] == layer
    assert ("unknown_categories" in limits(run)) == (layer == "other")


def test_nesting_per_thread(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            op("b", 10, 20),
            op("a", 0, 100),
            op("c", 15, 5),
            op("d", 40, 5),
            host("cpu_op", "other thread", 12, 3, tid=TID + 1),
        ],
    )
    rows = run.table("host_ops").select("name", "parent_id", "depth", "subtree_end_id").rows()
    assert rows == [
        ("a", None, 0, 4),
        ("b", 0, 1, 3),
        ("c", 1, 2, 3),
        ("d", 0, 1, 4),
        ("other thread", None, 0, 5),
    ]


def test_shapes_stacks_and_python_frames(tmp_path: Path) -> None:
    run = opened(tmp_path, [
        op("aten::mm", 0, 1, **{"Input Dims": [[2, 3], [], [3]], "Input type": ["float", "", "int"],
                               "Input Strides": [[3, 1], [], [1]],
                               "Concrete Inputs": ["", "True", ""], "Sequence number": 4,
                               "Call stack": "a.py(1): f;b.py(2): g"}),
        host("python_function", "f", 5, 1, **{"Python id": 7, "Python parent id": 6,
                                            "Python module id": 2}),
    ])  # fmt: skip
    row, frame = run.table("host_ops").to_dicts()
    assert row["input_shapes"] == "[[2,3],[],[3]]"
    assert row["input_types"] == '["float","","int"]'
    assert row["input_strides"] == "[[3,1],[],[1]]"
    assert row["input_values"] == '["","True",""]'
    assert (row["stack"], row["sequence_id"]) == ("a.py(1): f;b.py(2): g", 4)
    assert (frame["python_id"], frame["python_parent_id"], frame["module_id"]) == (7, 6, "2")
    facts = only(run, "recordings")
    assert (facts["has_stacks"], facts["has_shapes"]) == (True, True)


def forward_of(run: Run) -> dict[str, str]:
    names = dict(run.table("host_ops").select("host_op_id", "name").rows())
    rows = run.table("host_ops").select("name", "forward_id").drop_nulls().rows()
    return {name: names[forward] for name, forward in rows}


def test_backward_operators_by_arrow(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            op("aten::mm", 0, 5),
            host("cpu_op", "MmBackward0", 50, 5, tid=TID + 1),
            flow("s", 3, (PID, TID), 0, "fwdbwd"),
            flow("f", 3, (PID, TID + 1), 50, "fwdbwd"),
        ],
    )
    assert forward_of(run) == {"MmBackward0": "aten::mm"}


def test_backward_operators_by_sequence_number(tmp_path: Path) -> None:
    number = "Sequence number"
    run = opened(
        tmp_path,
        [
            op("aten::mm", 0, 5, **{number: 8}),
            op("aten::add", 10, 5, **{number: 9}),
            host("cpu_op", "MmBackward0", 50, 5, tid=TID + 1, **{number: 8, "Fwd thread id": 1}),
            host("cpu_op", "AddBackward0", 40, 5, tid=TID + 1, **{number: 9, "Fwd thread id": 1}),
            host("cpu_op", "lone", 60, 5, tid=TID + 1, **{number: 77, "Fwd thread id": 1}),
        ],
    )
    assert forward_of(run) == {"MmBackward0": "aten::mm", "AddBackward0": "aten::add"}


def test_begin_and_end_events_become_ranges(tmp_path: Path) -> None:
    def half(phase: str, ts: int, name: str = "") -> Event:
        return {"ph": phase, "ts": ts, "pid": 1, "tid": 2, "name": name}

    run = opened(
        tmp_path,
        [
            half("B", 0, "outer"),
            half("B", 2, "inner"),
            half("E", 4),
            half("E", 9),
            half("E", 11),
            half("B", 20, "open"),
        ],
    )
    rows = run.table("host_ops").select("name", "start_ns", "end_ns", "depth").rows()
    assert rows == [("outer", 0, 9_000, 0), ("inner", 2_000, 4_000, 1)]
    assert limits(run)["unmatched_begins"] == 2


def test_names_of_processes_and_threads(tmp_path: Path) -> None:
    def meta(name: str, tid: Any, text: str) -> Event:
        return {"ph": "M", "name": name, "pid": PID, "tid": tid, "args": {"name": text}}

    run = opened(
        tmp_path,
        [op("a", 0, 1), meta("process_name", 0, "python"), meta("thread_name", TID, "main thread")],
    )
    row = only(run, "threads")
    assert (row["pid"], row["tid"]) == (PID, TID)
    assert (row["process_name"], row["thread_name"]) == ("python", "main thread")


# -- other events -------------------------------------------------------------------------------


def test_memory_events(tmp_path: Path) -> None:
    def memory(ts: int, size: int, **args: Any) -> Event:
        return {
            "ph": "i",
            "name": "[memory]",
            "pid": PID,
            "tid": TID,
            "ts": ts,
            "s": "t",
            "args": {"Bytes": size, **args},
        }

    gpu = {
        "Device Type": 1,
        "Device Id": 2,
        "Addr": 512,
        "Total Allocated": 700,
        "Total Reserved": 900,
    }
    run = opened(
        tmp_path,
        [
            memory(1, 700, **gpu),
            memory(2, -700, **gpu),
            memory(3, 5, **{"Device Type": 0, "Device Id": -1}),
        ],
    )
    fields = ("time_ns", "device_id", "action", "address", "bytes", "allocated_bytes")
    assert run.table("memory_events").select(fields).rows() == [
        (1_000, 2, "alloc", 512, 700, 700),
        (2_000, 2, "free", 512, 700, 700),
        (3_000, None, "alloc", None, 5, None),
    ]


def test_counters(tmp_path: Path) -> None:
    args = {"sm": 50, "text": "x", "m": "1.5"}
    event = {"ph": "C", "name": "util", "pid": 3, "ts": 7, "args": args}
    run = opened(tmp_path, [event])
    assert run.table("counters").select("metric", "device_id", "time_ns", "value").rows() == [
        ("util: sm", 3, 7_000, 50.0),
        ("util: m", 3, 7_000, 1.5),
    ]


def test_syncs(tmp_path: Path) -> None:
    wait = event(
        "cuda_sync",
        "Stream Wait Event",
        10,
        1,
        pid=0,
        tid=7,
        cuda_sync_kind="Stream Wait Event",
        stream=7,
        correlation=5,
        device=0,
        wait_on_stream=13,
        wait_on_cuda_event_id=3,
        wait_on_cuda_event_record_corr_id=4,
    )
    run = opened(tmp_path, [call("cudaStreamWaitEvent", 1, 1, 5), wait])
    row = only(run, "syncs")
    want = {
        "kind": "stream_wait_event",
        "stream_id": 7,
        "event_id": 3,
        "wait_on_stream_id": 13,
        "recorded_by_correlation_id": 4,
        "host_op_id": only(run, "host_ops")["host_op_id"],
    }
    assert {name: row[name] for name in want} == want


COLLECTIVE = {
    "Collective name": "_allgather_base",
    "In msg nelems": 100,
    "Out msg nelems": 800,
    "Group size": 8,
    "dtype": "BFloat16",
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
}
EXPECTED_COLLECTIVE = {
    "op": "allgatherbase",
    "group": "0",
    "group_size": 8,
    "group_ranks": list(range(8)),
    "dtype": "BFloat16",
    "elements_in": 100,
    "elements_out": 800,
    "bytes_in": 200,
    "bytes_out": 1600,
}


def test_collective_of_a_kernel_that_carries_its_meaning(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("any name", 10, 5, **COLLECTIVE)])
    row = only(run, "collectives")
    assert {name: row[name] for name in EXPECTED_COLLECTIVE} == EXPECTED_COLLECTIVE
    assert only(run, "device_ops")["device_op_id"] == row["device_op_id"]
    assert run.ask("breakdown").get_column("exposed_comm_ns").to_list() == [5_000]


def test_collective_inherited_from_the_operator_around_the_launch(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            op("record_param_comms", 0, 20, **COLLECTIVE),
            launch(5, 2, 1),
            kernel("ncclDevKernel_AllGather_RING_LL", 30, 5, 1),
            launch(50, 2, 2),
            kernel("ncclDevKernel_Other", 60, 5, 2),
        ],
    )
    row = only(run, "collectives")
    assert {name: row[name] for name in EXPECTED_COLLECTIVE} == EXPECTED_COLLECTIVE


# -- the recording ------------------------------------------------------------------------------


def test_device_properties(tmp_path: Path) -> None:
    listed = {
        "id": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 85_000_000_000,
        "computeMajor": 9,
        "computeMinor": 0,
        "numSms": 132,
        "warpSize": 32,
    }
    run = opened(tmp_path, [kernel("k", 1, 1, device=4)], deviceProperties=[listed, "junk", {}])
    first, second = run.table("devices").to_dicts()
    assert (first["device_id"], first["vendor"], first["sm_count"]) == (1, "nvidia", 132)
    assert (first["memory_bytes"], first["compute_capability"]) == (85_000_000_000, "9.0")
    assert (second["device_id"], second["name"]) == (4, None)


def test_device_properties_of_older_pytorch(tmp_path: Path) -> None:
    """PyTorch 1.8 to 1.10 listed them under another key, by cudaDeviceProp's own names."""
    listed = {
        "id": 0,
        "name": "Tesla V100-DGXS-32GB",
        "totalGlobalMem": 34_084_028_416,
        "major": 7,
        "minor": 0,
        "maxThreadsPerMultiProcessor": 2048,
        "multiProcessorCount": 80,
    }
    run = opened(tmp_path, [kernel("k", 1, 1)], computeProperties=[listed])
    device = only(run, "devices")
    assert (device["name"], device["vendor"]) == ("Tesla V100-DGXS-32GB", "nvidia")
    assert (device["sm_count"], device["compute_capability"]) == (80, "7.0")
    assert device["max_threads_per_sm"] == 2048


def test_an_agent_of_rocm_is_one_of_equal_gpus(tmp_path: Path) -> None:
    """Agents number processors too: GPU 0 is agent 2 where there are two of them."""
    mi300 = {"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}
    work = [kernel("k", 1, 1, device=2)]
    used = (
        opened(tmp_path / "a", work, deviceProperties=[mi300]).table("devices").row(1, named=True)
    )
    assert (used["device_id"], used["name"], used["sm_count"]) == (2, "AMD Instinct MI300X", 304)
    other = {"id": 1, "name": "AMD Instinct MI210"}
    unlike = opened(tmp_path / "b", work, deviceProperties=[mi300, other])
    assert unlike.table("devices").row(2, named=True)["name"] is None


@pytest.mark.parametrize(
    ("name", "vendor"),
    [("AMD Instinct MI300X", "amd"), ("Tesla V100-SXM2-16GB", "nvidia"), ("Unknown", None)],
)
def test_vendor_by_product_name(tmp_path: Path, name: str, vendor: str | None) -> None:
    run = opened(tmp_path, [op("a", 0, 1)], deviceProperties=[{"id": 0, "name": name}])
    assert only(run, "devices")["vendor"] == vendor


def test_host_name_is_only_kept_when_asked_for(tmp_path: Path) -> None:
    path = str(write(tmp_path, [op("a", 0, 1)], host_name="node17"))
    assert only(sightline.open(path), "recordings")["host"] is None
    kept = sightline.open(path, keep_identity=True)
    assert only(kept, "recordings")["host"] == "node17"


def test_trace_of_the_host_alone(tmp_path: Path) -> None:
    run = opened(tmp_path, [op("a", 0, 1)])
    assert "no_device_ops" in limits(run)
    with pytest.raises(sightline.MissingDataError, match="no device_ops"):
        run.ask("breakdown")


def test_trace_without_events(tmp_path: Path) -> None:
    run = opened(tmp_path, [])
    assert {"no_device_ops", "no_host_ops"} <= set(limits(run))


def test_entries_that_are_no_events_are_counted(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("k", 1, 1), 5, None, "x", [], {}, {"ph": 7}])
    assert only(run, "device_ops")["name"] == "k"
    assert limits(run)["not_events"] == 6


# -- the dialects of the simulator --------------------------------------------------------------


@pytest.mark.parametrize("dialect", [d for d in DIALECT_NAMES if d != "2021"])
@pytest.mark.parametrize("scenario", ["exposed_communication", "random_program", "graph_replay"])
def test_dialects_give_the_same_tables(scenario: str, dialect: str) -> None:
    """Device operations and launches, but for device numbers, names of calls and the origin."""
    mine, other = simulated(scenario, 1, dialect), simulated(scenario, 1, "2025")
    columns = ["rank", "stream_id", "kind", "name", "bytes", "correlation_id", "copy_kind"]

    def rows(case: Simulated) -> list[tuple[Any, ...]]:
        ops = case.run.table("device_ops").sort("rank", "device_id", "start_ns", "device_op_id")
        times = ops.select(pl.col("start_ns", "end_ns") - case.origin_ns).rows()
        launched = ops["launch_id"].is_not_null()
        return list(zip(times, ops.select(columns).rows(), launched, strict=True))

    assert rows(mine) == rows(other)


@pytest.mark.parametrize(
    ("name", "kind"), [("fba_linear", "kernel"), ("Wait on DMA", "other"), ("merge", "other")]
)
def test_what_a_control_processor_only_waits_for_is_no_kernel(
    tmp_path: Path, name: str, kind: str
) -> None:
    """MTIA records its waits and merges in the category of its kernels."""
    run = opened(tmp_path, [kernel(name, 1, 1, cat="mtia_ccp_events")])
    assert only(run, "device_ops")["kind"] == kind


@pytest.mark.parametrize(
    ("beside", "said"),
    [([], "and no operators: the GPU was watched, and idle"),
     ([host("python_function", "torch/profiler/profiler.py(117): stop_trace", 0, 9)],
      "and no operators: the GPU was watched, and idle"),
     ([host("python_function", "train.py(3): step", 0, 9)], "CPU side only"),
     ([op("aten::mm", 5, 3)], "CPU side only")],
    ids=["nothing", "the profiler's own end", "a program", "an operator"],
)  # fmt: skip
def test_a_window_in_which_nothing_ran(tmp_path: Path, beside: list[Event], said: str) -> None:
    """The runtime's calls show that the GPU was asked for: more activities would change nothing."""
    run = opened(tmp_path, [call("cudaDeviceSynchronize", 1, 2), *beside])
    quality = run.table("quality").filter(pl.col("kind") == "no_device_ops")
    assert said in quality.item(0, "text")
