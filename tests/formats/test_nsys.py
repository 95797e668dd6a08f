"""What the Nsight Systems importer makes of an export: rows in, tables out."""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sightline
from sightline.answer.sql import answer_query
from sightline.answer.summary import list_limits
from sightline.core.model.run import Run
from sightline.core.model.tables import device_ops
from sightline.formats.nvidia._nsys import database
from sightline.formats.nvidia._nsys import tables as nsys_tables
from support.as_folder import assert_same_run, write_folder
from synth_nsys import Export, gpid, gtid

UTC = 1_700_000_000_000_000_000
VERSIONS = ("2.9.1", "3.1.7", "3.24.14", "3.25.0")


def opened(export: Export, folder: Path, *, keep_identity: bool = False) -> Run:
    """The run of an export; it is the same from SQLite and from a folder of tables."""
    path = export.write(folder / "e.sqlite")
    run = sightline.open(str(path), keep_identity=keep_identity)
    tables = write_folder(path, folder / f"{len(list(folder.iterdir()))}.parquetdir", "parquet")
    assert_same_run(run, tables, keep_identity=keep_identity)
    return run


def kinds(run: Run) -> set[str]:
    return set(run.table("quality").get_column("kind").to_list())


def small(version: str = "3.25.0") -> Export:
    """Two launches, a copy and a wait on one thread."""
    e = Export(version)
    e.api("cudaLaunchKernel_v7000", 1_000, 1_400, 1)
    e.kernel("void gemm<float>(int)", 2_000, 5_000, 1)
    e.api("cudaMemcpyAsync_v3020", 1_500, 1_900, 2)
    e.copy(1, 5_000, 9_000, 2, 4096, 1, 2)
    e.api("cuLaunchKernel", 2_000, 2_300, 3)
    e.kernel(
        "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096>)", 9_500, 11_000, 3
    )
    return e


@pytest.mark.parametrize("version", VERSIONS)
def test_every_schema_gives_the_same_timeline(version: str, tmp_path: Path) -> None:
    run = opened(small(version), tmp_path)
    ops = run.table("device_ops")
    assert ops.select("kind", "start_ns", "end_ns", "correlation_id", "pid").rows() == [
        ("kernel", UTC + 2_000, UTC + 5_000, 1, 7),
        ("memcpy", UTC + 5_000, UTC + 9_000, 2, 7),
        ("kernel", UTC + 9_500, UTC + 11_000, 3, 7),
    ]
    assert ops.row(0, named=True)["name"] == "void gemm<float>(int)"
    assert ops.row(0, named=True)["short_name"] == "void gemm"
    assert ops.select("copy_kind", "src_kind", "dst_kind", "bytes").row(1) == (
        "HtoD",
        "pinned",
        "device",
        4096,
    )
    host = run.table("host_ops")
    assert host.select("layer", "name", "tid").rows() == [
        ("runtime", "cudaLaunchKernel_v7000", 7),
        ("runtime", "cudaMemcpyAsync_v3020", 7),
        ("driver", "cuLaunchKernel", 7),
    ]
    assert ops.get_column("launch_id").to_list() == host.get_column("host_op_id").to_list()
    answer = run.ask("breakdown").row(0, named=True)
    assert [
        answer[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_copy", "idle")
    ] == [3_000, 1_500, 4_000, 500]


def test_missing_is_null(tmp_path: Path) -> None:
    ops = opened(small(), tmp_path).table("device_ops")
    for column in ("cluster_x", "graph_node_id", "pdl_last_cta_ns", "green_context_id"):
        assert ops.get_column(column).null_count() == ops.height, column
    with_cluster = Export()
    with_cluster.kernel(
        "k",
        0,
        5,
        1,
        clusterX=2,
        clusterY=1,
        clusterZ=1,
        greenContextId=3,
        qmdPreexitDone=4,
        graphNodeId=9,
    )
    (tmp_path / "b").mkdir()
    row = opened(with_cluster, tmp_path / "b").table("device_ops").row(0, named=True)
    assert (row["cluster_x"], row["green_context_id"], row["graph_node_id"]) == (2, 3, 9)
    assert row["pdl_preexit_ns"] == UTC + 4


def test_launches_are_joined_by_process_and_number(tmp_path: Path) -> None:
    e = Export()
    for pid, start in ((7, 100), (8, 200)):
        e.api("cudaLaunchKernel", start, start + 10, 5, pid=pid, tid=pid)
        e.kernel(f"k{pid}", start + 50, start + 60, 5, pid=pid, device=0)
    e.kernel("lost", 900, 910, 77)
    e.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=7)
    e.add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=8)
    e.add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        start=1,
        end=2,
        deviceId=0,
        globalPid=gpid(8),
        syncType=3,
    )
    run = opened(e, tmp_path)
    rows = (
        run.table("device_ops")
        .join(
            run.table("host_ops").select(launch_id="host_op_id", of="pid"),
            on="launch_id",
            how="left",
            maintain_order="left",
        )
        .select("name", "of", "device_id")
        .rows()
    )
    # Both processes call their GPU 0; the export says that they are two.
    assert run.table("syncs").get_column("device_id").to_list() == [3]
    assert rows == [("k7", 7, 0), ("k8", 8, 3), ("lost", None, 0)]
    assert "unmatched_launches" in kinds(run)


def test_one_device_number_of_two_processes_is_doubted(tmp_path: Path) -> None:
    e = small("2.9.1")
    e.kernel("other", 5_000, 6_000, 1, pid=8)
    assert "shared_device_number" in kinds(opened(e, tmp_path))


def test_a_driver_call_inside_a_runtime_call_is_not_the_launch(tmp_path: Path) -> None:
    e = Export()
    e.api("cuLaunchKernel", 110, 190, 1)
    e.api("cudaLaunchKernel", 100, 200, 1)
    e.kernel("k", 300, 400, 1)
    run = opened(e, tmp_path)
    assert run.table("device_ops").get_column("launch_id").to_list() == [0]
    assert run.table("host_ops").select("name", "parent_id", "depth", "subtree_end_id").rows() == [
        ("cudaLaunchKernel", None, 0, 2),
        ("cuLaunchKernel", 0, 1, 2),
    ]


def test_calls_that_an_old_export_has_twice(tmp_path: Path) -> None:
    e = Export("2.9.1")
    e.api("cudaMalloc_v3020", 110, 190, 1)
    e.api("cudaMalloc", 100, 200, 1, eventClass=67, callchainId=4)
    e.add("CUDA_CALLCHAINS", id=4, symbol=e.text("main"), module=e.text("app"), stackDepth=0)
    run = opened(e, tmp_path)
    assert run.table("host_ops").select("name", "start_ns", "stack_id").rows() == [
        ("cudaMalloc_v3020", UTC + 110, 0)
    ]


def test_nvtx(tmp_path: Path) -> None:
    e = Export()
    e.add("NVTX_EVENTS", start=0, eventType=75, text="Trainer", globalTid=gtid(7, 7), domainId=4)
    e.add(
        "NVTX_EVENTS",
        start=0,
        eventType=33,
        text="io",
        globalTid=gtid(7, 7),
        domainId=4,
        category=9,
    )
    e.range("outer", 10, 100, domainId=4, category=9, int64Value=-5)
    e.range("inner", 20, 50, registered=True)
    e.range("across", 30, 80, kind=60, endGlobalTid=gtid(7, 8))
    e.range("here", 40, None, kind=34)
    e.range("never closed", 60, None)
    e.range("ProfilerStep#3", 200, 300)
    e.api("cudaFree", 250, 400, 1)
    run = opened(e, tmp_path)
    columns = ["name", "layer", "range_kind", "domain", "category", "payload", "depth", "end_tid"]
    assert run.table("host_ops").select(columns).rows() == [
        ("outer", "annotation", "pushpop", "Trainer", "io", "-5", 0, None),
        ("inner", "annotation", "pushpop", None, None, None, 1, None),
        ("here", "annotation", "mark", None, None, None, 2, None),
        ("never closed", "annotation", "pushpop", None, None, None, 0, None),
        ("ProfilerStep#3", "step", "pushpop", None, None, None, 1, None),
        ("cudaFree", "runtime", None, None, None, None, 1, None),
        # Not in the tree: it ends on another thread.
        ("across", "annotation", "startend", None, None, None, 0, 8),
    ]
    assert run.table("host_ops").filter(name="never closed").get_column("end_ns")[0] == UTC + 400
    assert "open_ranges" in kinds(run)


def test_graphs_recorded_whole_are_busy_not_idle(tmp_path: Path) -> None:
    e = Export()
    e.api("cudaGraphLaunch_v10000", 0, 10, 1)
    e.add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        start=100,
        end=400,
        deviceId=0,
        contextId=1,
        streamId=7,
        correlationId=1,
        globalPid=gpid(7),
        graphId=3,
        graphExecId=4,
    )
    run = opened(e, tmp_path)
    row = run.table("device_ops").row(0, named=True)
    assert (row["kind"], row["name"], row["graph_exec_id"], row["launch_id"]) == (
        "graph",
        "CUDA graph 3",
        4,
        0,
    )
    assert run.ask("breakdown").row(0, named=True)["compute_ns"] == 300
    assert "graphs_recorded_whole" in kinds(run)


def test_graph_launches_without_a_trace_are_an_error(tmp_path: Path) -> None:
    e = small()
    e.api("cudaGraphLaunch_v10000", 20_000, 20_010, 9)
    quality = opened(e, tmp_path).table("quality").filter(kind="graphs_not_recorded")
    assert quality.select("severity", "count").rows() == [("error", 1)]


def test_syncs_name_what_they_wait_for(tmp_path: Path) -> None:
    e = Export()
    e.api("cudaEventRecord", 0, 5, 1)
    e.api("cudaStreamWaitEvent", 10, 15, 2)
    e.add(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        timestamp=0,
        deviceId=0,
        contextId=1,
        streamId=13,
        correlationId=1,
        globalPid=gpid(7),
        eventId=4,
        eventSyncId=44,
    )
    e.add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        start=10,
        end=15,
        deviceId=0,
        contextId=1,
        streamId=14,
        correlationId=2,
        globalPid=gpid(7),
        syncType=2,
        eventId=4,
        eventSyncId=44,
    )
    e.add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        start=20,
        end=25,
        deviceId=0,
        contextId=1,
        streamId=2**32 - 1,
        correlationId=3,
        globalPid=gpid(7),
        syncType=4,
        eventId=2**32 - 1,
        eventSyncId=2**32 - 1,
    )
    run = opened(e, tmp_path)
    columns = [
        "kind",
        "stream_id",
        "event_id",
        "wait_on_stream_id",
        "recorded_by_correlation_id",
        "host_op_id",
    ]
    assert run.table("syncs").select(columns).rows() == [
        ("stream_wait_event", 14, 4, 13, 1, 1),
        ("context", None, None, None, None, None),
    ]
    assert run.table("cuda_events").select("event_id", "stream_id", "host_op_id").rows() == [
        (4, 13, 0)
    ]


def test_overhead_says_whose_it_is(tmp_path: Path) -> None:
    e = small()
    for start, kind in ((20_000, 2), (21_000, 3), (22_000, 8)):
        e.add(
            "CUPTI_ACTIVITY_KIND_OVERHEAD",
            start=start,
            end=start + 10,
            globalTid=gtid(7, 7),
            overheadType=kind,
        )
    rows = opened(e, tmp_path).table("host_ops").filter(layer="overhead")
    assert rows.get_column("category").to_list() == [
        "Driver JIT compiler (CUDA)",
        "Buffer flush (Profiler)",
        "Command buffer full (CUDA)",
    ]


def test_call_chains_become_a_trie(tmp_path: Path) -> None:
    e = Export()
    main, work, wait = e.text("main"), e.text("work"), e.text("wait")
    module = e.text("/home/ada/app")
    for chain, symbols in ((1, (wait, work, main)), (2, (work, main))):
        for depth, symbol in enumerate(symbols):  # 0 is the leaf
            e.add(
                "SAMPLING_CALLCHAINS",
                id=chain,
                symbol=symbol,
                module=module,
                stackDepth=depth,
                kernelMode=int(symbol == wait),
            )
        e.add(
            "COMPOSITE_EVENTS",
            id=chain,
            start=chain * 100,
            cpu=1,
            threadState=chain,
            globalTid=gtid(7, 9),
            cpuCycles=chain * 1_000,
        )
    e.add("CUDA_CALLCHAINS", id=1, symbol=main, module=module, stackDepth=0)
    e.api("cudaMalloc", 0, 10, 1, callchainId=1)
    run = opened(e, tmp_path)
    frames, stacks = run.table("frames"), run.table("stacks")
    named = stacks.join(frames, on="frame_id").sort("stack_id")
    assert named.select("stack_id", "parent_id", "function", "depth", "layer").rows() == [
        (0, None, "main", 0, "native"),
        (1, 0, "work", 1, "native"),
        (2, 1, "wait", 2, "os"),
    ]
    assert frames.get_column("module").unique().to_list() == ["/home/…/app"]
    samples = run.table("cpu_samples").select("time_ns", "tid", "stack_id", "on_cpu", "state")
    assert samples.rows() == [
        (UTC + 100, 9, 2, True, "running"),
        (UTC + 200, 9, 1, False, "interruptible"),
    ]
    assert run.table("host_ops").get_column("stack_id").to_list() == [0]


def test_os_calls_and_their_marks(tmp_path: Path) -> None:
    e = Export()
    e.add(
        "OSRT_API",
        start=0,
        end=0,
        eventClass=31,
        globalTid=gtid(7, 7),
        nameId=e.text("OS runtime libraries profiling started"),
        callchainId=0,
    )
    e.add(
        "OSRT_API",
        start=5,
        end=9,
        eventClass=27,
        globalTid=gtid(7, 7),
        nameId=e.text("poll"),
        returnValue=1,
        callchainId=0,
    )
    e.add("SCHED_EVENTS", start=6, cpu=3, isSchedIn=0, globalTid=gtid(7, 7), threadBlock=6)
    run = opened(e, tmp_path)
    assert run.table("host_ops").select("name", "range_kind", "return_value").rows() == [
        ("OS runtime libraries profiling started", "mark", None),
        ("poll", None, 1),
    ]
    assert run.table("sched_events").select("cpu", "switched_in", "block_reason").rows() == [
        (3, False, "mutex")
    ]
    assert run.ask("osrt_sum").get_column("Name").to_list() == ["poll"]


def test_mpi(tmp_path: Path) -> None:
    e = Export()
    e.add("MPI_RANKS", globalTid=gtid(7, 7), rank=2)
    e.add(
        "MPI_P2P_EVENTS",
        start=10,
        end=30,
        globalTid=gtid(7, 7),
        textId=e.text("MPI_Send"),
        commHandle=1,
        tag=5,
        remoteRank=3,
        size=800,
    )
    e.add(
        "MPI_COLLECTIVES_EVENTS",
        start=40,
        end=90,
        globalTid=gtid(7, 7),
        textId=e.text("MPI_Bcast"),
        commHandle=1,
        rootRank=0,
        size=64,
        recvSize=0,
    )
    run = opened(e, tmp_path)
    assert run.ask("mpi_event_trace").rows() == [
        (10, 30, 20, "MPI_Send", 7, 7, 5, 2, 3, None, pytest.approx(0.0008), None, None),
        (40, 90, 50, "MPI_Bcast", 7, 7, None, 2, None, 0, None, pytest.approx(0.000064), 0),
    ]
    assert run.table("recordings").get_column("rank").to_list() == [2]
    assert run.ask("mpi_event_sum").select("Source", "Name").rows() == [
        ("collectives", "MPI_Bcast"),
        ("p2p", "MPI_Send"),
    ]
    assert run.ask("mpi_msg_size_sum").select(
        "Total Message Volume (B)", "Instances", "Source", "Name"
    ).rows() == [
        (800, 1, "p2p", "MPI_Send"),
        (64, 1, "coll_send", "MPI_Bcast"),
        (0, 1, "coll_recv", "MPI_Bcast"),
    ]


def nccl_blob(schema: int, payload: bytes) -> bytes:
    head = struct.pack("<IIIIQQ", 1, 0, schema, 0, len(payload), 32 + len(payload))
    return head + payload


def test_nccl_payloads_become_collectives(tmp_path: Path) -> None:
    e = Export()
    init, allreduce, send = 1, 2, 3
    fields = {
        init: (("NCCL communicator ID", 18, 0), ("No. of ranks", 5, 8), ("Rank", 5, 12)),
        allreduce: (("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8)),
        send: (
            ("NCCL communicator ID", 18, None),
            ("Message size [bytes]", 22, 8),
            ("Peer rank", 5, 16),
        ),
    }
    for schema, entries in fields.items():
        for i, (name, kind, offset) in enumerate(entries):
            e.add(
                "NVTX_PAYLOAD_SCHEMA_ENTRIES",
                domainId=1,
                schemaId=schema,
                idx=i,
                type=kind,
                name=name,
                offset=offset,
            )
    e.range("ncclCommInitRank", 0, 5, binaryData=nccl_blob(init, struct.pack("<Qii", 0xFE, 8, 3)))
    e.range(
        "ncclAllReduce", 10, 50, binaryData=nccl_blob(allreduce, struct.pack("<QQ", 0xFE, 1 << 20))
    )
    e.range("ncclSend", 60, 90, binaryData=nccl_blob(send, struct.pack("<QQi4x", 0xFE, 4096, 5)))
    for corr, start in ((1, 20), (2, 70), (3, 100)):
        e.api("cudaLaunchKernelExC_v11060", start, start + 5, corr)
        e.kernel("ncclDevKernel_x(int)", start * 10, start * 10 + 40, corr)
    rows = opened(e, tmp_path).table("collectives")
    columns = ["device_op_id", "op", "group", "group_size", "bytes_in", "peer"]
    assert rows.select(columns).rows() == [
        (0, "allreduce", "0x00000000000000fe", 8, 1 << 20, None),
        (1, "send", "0x00000000000000fe", 8, 4096, 5),
    ]


def test_counters_memory_and_faults(tmp_path: Path) -> None:
    e = small()
    e.add(
        "TARGET_INFO_GPU_METRICS", typeId=0x100, metricId=5, metricName="SMs Active [Throughput %]"
    )
    e.add("GPU_METRICS", timestamp=50, typeId=0x100, metricId=5, value=73)
    e.add("TARGET_INFO_NIC_INFO", GUID=99, nicId=1, name="mlx5_0")
    e.add("NIC_ID_MAP", nicId=1, globalId=12)
    e.add(
        "TARGET_INFO_NETWORK_METRICS",
        metricsListId=1,
        metricsIdx=2,
        name="IB: Send waits",
        unit="ticks/ms",
    )
    for start, value in ((0, 9_000), (1_000_000, 20_000)):
        e.add(
            "NET_NIC_METRIC",
            start=start,
            end=start + 1_000_000,
            globalId=12,
            portId=1,
            metricsListId=1,
            metricsIdx=2,
            value=value,
        )
    e.add(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        start=5,
        globalPid=gpid(7),
        deviceId=0,
        address=4096,
        bytes=512,
        memKind=2,
        memoryOperationType=0,
        correlationId=1,
    )
    e.add(
        "CUDA_GPU_MEMORY_POOL_EVENTS",
        start=6,
        globalPid=gpid(7),
        deviceId=0,
        address=1,
        operationType=3,
        poolType=1,
        localMemoryPoolSize=100,
    )
    e.add(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        start=5,
        end=6,
        globalPid=gpid(7),
        deviceId=0,
        address=0x7F9C80000000,
        numberOfPageFaults=3,
        faultAccessType=2,
    )
    e.add(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        start=7,
        globalPid=gpid(7),
        address=0x7F9C80000000,
        CpuInstruction=e.text("fill"),
        module=e.text("app"),
    )
    e.copy(
        11,
        12_000,
        12_500,
        8,
        65_536,
        4,
        4,
        device=None,
        dstDeviceId=0,
        virtualAddress=0x7F9C80000000,
        migrationCause=2,
    )
    run = opened(e, tmp_path)
    assert run.table("counters").select(
        "metric", "unit", "device_id", "source", "value"
    ).rows() == [
        ("SMs Active [Throughput %]", "Throughput %", 0, None, 73.0),
        ("IB: Send waits", "ticks/ms", None, "mlx5_0 port 1", 9_000.0),
        ("IB: Send waits", "ticks/ms", None, "mlx5_0 port 1", 20_000.0),
    ]
    assert run.ask("network_congestion").rows() == [
        (1_000_000, 2_000_000, 1_000_000, 20_000.0, None, "mlx5_0 port 1")
    ]
    memory = run.table("memory_events").row(0, named=True)
    assert (memory["action"], memory["bytes"], memory["host_op_id"]) == ("alloc", 512, 0)
    assert run.table("memory_pools").get_column("action").to_list() == ["trimmed"]
    assert run.ask("um_total_sum").rows() == [
        (0.065536, 0.0, 1, 3, "0x7F9C80000000", "0x7F9C80000000")
    ]
    assert run.ask("um_sum").rows() == [("0x7F9C80000000", 0.065536, 0.0, 1, 3, 131_072.0)]
    assert run.ask("um_cpu_page_faults_sum").rows() == [(1, "fill")]
    migrated = run.table("device_ops").filter(copy_kind="UVM HtoD").row(0, named=True)
    assert (migrated["device_id"], migrated["migration_cause"]) == (0, "page fault")
    assert "unmatched_launches" not in kinds(run)  # no call launches a migration


def test_metrics_may_be_reals(tmp_path: Path) -> None:
    e = small()
    for at, value in ((50, 73), (60, 12)):
        e.add("GPU_METRICS", timestamp=at, typeId=1, metricId=5, value=value)
    path = e.write(tmp_path / "e.sqlite")
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE m (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value REAL)")
    db.execute("INSERT INTO m SELECT timestamp, typeId, metricId, value + 0.5 FROM GPU_METRICS")
    db.execute("DROP TABLE GPU_METRICS")
    db.execute("ALTER TABLE m RENAME TO GPU_METRICS")
    db.commit()
    db.close()
    run = sightline.open(str(path))
    assert run.table("counters").get_column("value").to_list() == [73.5, 12.5]
    assert "malformed_values" not in kinds(run)


def test_devices_and_threads(tmp_path: Path) -> None:
    e = small()
    e.add(
        "TARGET_INFO_GPU",
        id=0,
        name="NVIDIA H100",
        uuid="GPU-secret",
        smCount=132,
        clockRate=1_980_000_000,
        totalMemory=80 << 30,
        memoryBandwidth=3_352_320_000_000,
        computeMajor=9,
        computeMinor=0,
        threadsPerWarp=32,
        maxWarpsPerSm=64,
    )
    e.add("PROCESSES", globalPid=gpid(7), pid=7, name="python3")
    e.add("PROCESSES", globalPid=gpid(99), pid=99, name="somebody's editor")
    e.add("ThreadNames", nameId=e.text("worker"), priority=20, globalTid=gtid(7, 7))
    run = opened(e, tmp_path)
    gpu = run.table("devices").row(0, named=True)
    assert (gpu["name"], gpu["compute_capability"], gpu["max_threads_per_sm"], gpu["uuid"]) == (
        "NVIDIA H100",
        "9.0",
        2048,
        None,
    )
    assert run.table("threads").drop("rank", "recording_id").rows() == [
        (7, 7, "python3", "worker", 20)
    ]


def test_names_of_people_and_machines_stay_out(tmp_path: Path) -> None:
    e = small()
    e.add("DIAGNOSTIC_EVENT", severity=3, text="cannot write /home/ada/x\nretry", timestamp=0)
    e.add("DIAGNOSTIC_EVENT", severity=1, text="ada said hello", timestamp=0)
    e.add("OSRT_FILE_ACCESS_DESCRIPTORS", fileAccessId=0, processId=7, filePath="/home/ada/data")
    e.add(
        "OSRT_FILE_ACCESS_EVENTS",
        fileAccessId=0,
        threadId=7,
        startedAt=1,
        endedAt=2,
        eventType=3,
        bytesProcessed=10,
    )
    run = opened(e, tmp_path)
    everything = "".join(
        str(run.table(name).drop("path").rows() if name == "recordings" else run.table(name).rows())
        for name in run.present()
    )
    for secret in ("ada", "secret-token", "host-of"):
        assert secret not in everything
    assert "cannot write /home/…/x retry" in everything
    named = opened(e, tmp_path, keep_identity=True)
    assert named.table("recordings").get_column("host").to_list() == ["host-of-ada"]
    assert named.table("file_accesses").get_column("path").to_list() == ["/home/ada/data"]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Unable to collect CPU kernel IP/backtrace samples. paranoid level is 2.", "info"),
        ("Collection of IP samples, backtraces, and scheduling data disabled.", "info"),
        ("Not all OS runtime libraries events might have been collected.", "info"),
        ("Installed CUDA driver version (13.0) is not supported by this build of Nsight Systems. "
         "CUDA trace will be collected using libraries for driver version 12.4", "info"),
        ("Not all CUDA events might have been collected.", "warning"),
        ("Could not parse 2 CUPTI activity records.", "warning"),
    ],
)  # fmt: skip
def test_only_what_concerns_the_gpus_rows_lowers_confidence(
    tmp_path: Path, text: str, severity: str
) -> None:
    e = small()
    e.add("DIAGNOSTIC_EVENT", severity=2, text=text, timestamp=0)
    run = opened(e, tmp_path)
    told = [x for x in list_limits(run) if x["kind"] == "profiler_message"]
    assert [x["severity"] for x in told] == [severity]
    gate = run.ask("quality_gate").filter(check="profiler_message")
    assert gate.get_column("effect").to_list() == (["lowers"] if severity == "warning" else [])


def test_each_message_of_the_profiler_is_told_and_how_often(tmp_path: Path) -> None:
    e = small()
    for text in ("first problem", "second problem", "second problem"):
        e.add("DIAGNOSTIC_EVENT", severity=2, text=text, timestamp=0)
    run = opened(e, tmp_path)
    told = list_limits(run)
    gate = run.ask("quality_gate").filter(check="profiler_message")
    assert gate.get_column("text").to_list() == ["Nsight Systems says: first problem"]
    assert [(x["text"], x["count"]) for x in told if x["kind"] == "profiler_message"] == [
        ("Nsight Systems says: first problem", None),
        ("Nsight Systems says: second problem (2 times)", None),
    ]


@pytest.mark.parametrize(
    ("texts", "said", "kinds"),
    [
        ([], "no GPU operations were recorded", ["no_device_ops", "no_host_ops"]),
        (
            ["No CUDA events collected. Does the process use CUDA?"],
            "made no CUDA call until recording stopped",
            ["no_device_ops"],
        ),
        (
            ["No CUDA events collected.", "Not all CUDA events might have been collected."],
            "Nsight Systems says that some may be missing",
            ["no_device_ops"],
        ),
        (
            ["No CUDA events collected.", "CUDA injection initialization failed."],
            "could not begin to trace CUDA",
            ["no_device_ops"],
        ),
        (
            [
                "Installed CUDA driver version (13.1) is not supported by this build of Nsight "
                "Systems. CUDA trace will be collected using libraries for driver version 12.8",
                "No CUDA events collected.",
            ],
            "does not know the installed driver (CUDA 13.1)",
            ["no_device_ops"],
        ),
    ],
)
def test_a_program_that_never_called_cuda(
    tmp_path: Path, texts: list[str], said: str, kinds: list[str]
) -> None:
    """Where Nsight Systems traced CUDA, to trace it again is not advice."""
    e = Export(utc_ns=UTC)
    e.add("OSRT_API", nameId=e.text("read"), globalTid=gtid(7, 7), start=5, end=9)
    for text in texts:
        e.add("DIAGNOSTIC_EVENT", severity=3, text=text, timestamp=0)
    limits = opened(e, tmp_path).table("quality")
    mine = limits.filter(pl.col("kind").is_in(["no_device_ops", "no_host_ops"]))
    assert mine.get_column("kind").to_list() == kinds
    assert said in mine.item(0, "text")


@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("/usr/lib64/libcudart.so.11.8.89", "CPU samples of the program lie in libcudart"),
        ("/usr/lib64/libnvidia-ptxjitcompiler.so.520.61.05", "but no CUDA call was recorded"),
        ("/usr/lib64/libcuda.so.520.61.05", "made no CUDA call until recording stopped"),  # nsys'
    ],
)  # fmt: skip
def test_samples_show_that_the_program_used_cuda(tmp_path: Path, library: str, said: str) -> None:
    e = Export(utc_ns=UTC)
    e.add("OSRT_API", nameId=e.text("read"), globalTid=gtid(7, 7), start=5, end=9)
    text = "No CUDA events collected. Does the process use CUDA?"
    e.add("DIAGNOSTIC_EVENT", severity=3, text=text, timestamp=0)
    e.add("COMPOSITE_EVENTS", id=1, start=6, globalTid=gtid(7, 7), cpuCycles=1)
    e.add("SAMPLING_CALLCHAINS", id=1, symbol=e.text("f"), module=e.text(library), stackDepth=0)
    (why,) = opened(e, tmp_path).table("quality").filter(kind="no_device_ops").to_dicts()
    assert said in why["text"]


def test_a_recording_that_ends_in_start_up(tmp_path: Path) -> None:
    """Calls came in spite of an unknown driver; --duration ended what was recorded."""
    e = Export(utc_ns=UTC)
    e.api("cuInit", 5, 9, 1)
    text = "Installed CUDA driver version (13.3) is not supported by this build of Nsight Systems."
    e.add("DIAGNOSTIC_EVENT", severity=2, text=text, timestamp=0)
    e.capture["STOP_TRIGGER"] = "Delayed"
    (told,) = [x for x in list_limits(opened(e, tmp_path)) if x["kind"] == "no_device_ops"]
    assert "1 call of CUDA, none of which puts work on the GPU, until recording was" in told["text"]
    assert "--delay" in told["remedy"]


def test_calls_that_put_nothing_on_the_gpu(tmp_path: Path) -> None:
    e = Export(utc_ns=UTC)
    e.api("cudaMalloc_v3020", 5, 9, 1)
    e.api("cudaFree_v3020", 15, 19, 2)
    (why,) = [x for x in list_limits(opened(e, tmp_path)) if x["kind"] == "no_device_ops"]
    assert "made 2 calls of CUDA, none of which puts work on the GPU" in why["text"]
    assert "cudaGetLastError" in why["remedy"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SoftwareReleaseVersion", "5.15.90.1-microsoft-standard-WSL2", ", under WSL2"),
        ("SoftwareReleaseVersion", "6.8.0-45-generic", "though calls that launch them were"),
        ("NvDriverVersion", "0", "the machine has no NVIDIA driver"),
    ],
)
def test_launches_without_kernels(tmp_path: Path, name: str, value: str, said: str) -> None:
    e = Export(utc_ns=UTC)
    e.api("cudaLaunchKernel_v7000", 5, 9, 1)
    e.add("TARGET_INFO_SYSTEM_ENV", name=name, value=value)
    (why,) = [x for x in list_limits(opened(e, tmp_path)) if x["kind"] == "no_device_ops"]
    assert said in why["text"]


@pytest.mark.parametrize(("platform", "is_said"), [("Windows", True), ("L4X", False)])
def test_the_driver_of_windows(tmp_path: Path, platform: str, *, is_said: bool) -> None:
    e = small()
    e.add("TARGET_INFO_SYSTEM_ENV", name="SoftwarePlatform", value=platform)
    kinds = {x["kind"] for x in list_limits(opened(e, tmp_path))}
    assert ("windows_driver" in kinds) == is_said


@pytest.mark.parametrize(("own", "is_said"), [(None, True), ("solver", False)])
def test_a_recorded_launcher_of_a_job(tmp_path: Path, own: str | None, is_said: bool) -> None:
    """`nsys profile mpirun …`, whose ranks made no call that was seen."""
    e = Export(utc_ns=UTC)
    for pid, name in ((7, "mpirun"), (8, own), (9, None)):
        e.add("OSRT_API", nameId=e.text("openat"), globalTid=gtid(pid, pid), start=5, end=9)
        if name:
            e.add("PROCESSES", globalPid=gpid(pid), pid=pid, name=name)
    (why,) = [x for x in list_limits(opened(e, tmp_path)) if x["kind"] == "no_device_ops"]
    assert ("the recorded program is mpirun" in why["text"]) == is_said
    assert ("mpirun -n N nsys profile" in why["remedy"]) == is_said


def test_ranks(tmp_path: Path) -> None:
    e = small()
    e.environment += ['SLURM_PROCID="5"', 'WORLD_SIZE="8"']
    run = opened(e, tmp_path)
    assert run.table("recordings").select("rank", "world_size").rows() == [(5, 8)]
    named = sightline.open(str(small().write(tmp_path / "node0_rank3.sqlite")))
    assert named.table("recordings").select("rank", "rank_source").rows() == [(3, "file name")]


def test_files_meet_on_the_wall_clock(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        e = Export(utc_ns=UTC + rank * 1_000_000)
        e.kernel("k", 500, 600, 1)
        paths.append(str(e.write(tmp_path / f"rank{rank}.sqlite")))
    starts = sightline.open(*paths).table("device_ops").select("rank", "start_ns").rows()
    assert starts == [(0, UTC + 500), (1, UTC + 1_000_500)]
    adrift = Export(utc_ns=None)
    adrift.kernel("k", 500, 600, 1)
    run = sightline.open(str(adrift.write(tmp_path / "adrift.sqlite")))
    assert run.table("device_ops").get_column("start_ns").to_list() == [500]
    assert "no_wall_clock" in kinds(run)


def test_the_input_is_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    path = small().write(folder / "e.sqlite")
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert sightline.open(str(path)).rows("device_ops") == 3
        assert os.listdir(folder) == ["e.sqlite"]  # noqa: PTH208
    finally:
        folder.chmod(stat.S_IRWXU)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


def test_columns_of_one_value_are_not_written_but_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As large tables are; a run of two recordings, so that ids are moved."""
    paths = []
    for name in ("a", "b"):
        e = Export()
        for n in range(1, 4):
            e.api("cudaLaunchKernel_v7000", n * 1_000, n * 1_000 + 400, n)
            e.kernel(f"the {name}'s kernel", n * 1_000 + 500, n * 1_000 + 900, n, gridX=n)
            e.api(f"call {n}", n * 1_000 + 450, n * 1_000 + 460, 0)
        paths.append(str(e.write(tmp_path / f"{name}.sqlite")))
    query = "SELECT * FROM device_ops ORDER BY device_op_id"

    def seen(cache: str) -> tuple[Run, list[pl.DataFrame], pl.DataFrame]:
        monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / cache))
        run = sightline.open(*paths, same_job=True)
        return run, [run.table(n) for n in ("device_ops", "host_ops")], answer_query(run, query)

    _, tables, rows = seen("whole")
    monkeypatch.setattr(nsys_tables, "LARGE_ROWS", 1)
    run, again, rows_again = seen("large")
    for one, other in zip([*tables, rows], [*again, rows_again], strict=True):
        assert_frame_equal(one, other)
    stored = set(run.parts[1].columns(device_ops.TABLE))
    assert {"grid_x", "start_ns", "device_op_id"} <= stored
    assert not {"name", "kind", "pid", "device_id", "block_x"} & stored
    assert run.parts[1].constants(device_ops.TABLE)["name"] == "the b's kernel"
    sightline.save(run, str(tmp_path / "s.sightline"))
    saved = sightline.open(str(tmp_path / "s.sightline"))
    assert_frame_equal(saved.table("device_ops"), tables[0])
    assert saved.parts[1].columns(device_ops.TABLE)["name"] == pl.String


def test_an_export_without_cuda(tmp_path: Path) -> None:
    e = Export()
    e.range("load data", 0, 100)
    run = opened(e, tmp_path)
    assert {"no_device_ops", "no_host_ops"} <= kinds(run)
    with pytest.raises(sightline.MissingDataError, match="no device_ops"):
        run.ask("breakdown")


def test_a_schema_from_the_future(tmp_path: Path) -> None:
    run = opened(small("3.99.0"), tmp_path)
    assert run.table("device_ops").get_column("registers_per_thread").null_count() == 3
    quality = run.table("quality").filter(kind="newer_schema")
    assert "3.99" in quality.get_column("text")[0]


def test_what_is_no_integer_is_read_by_sqlite(tmp_path: Path) -> None:
    """One value of another type, and the table takes the slower way: the same rows."""
    e = Export()
    for i in range(500):
        e.api("cudaLaunchKernel", i * 100, i * 100 + 10 + i % 3, i, returnValue=i % 2)
        e.kernel(f"k{i % 7}", i * 100 + 20, i * 100 + 80, i, gridX=None if i % 5 else i)
    path = e.write(tmp_path / "e.sqlite")
    columns = ["start", "end", "correlationId", "gridX", "graphNodeId", "gridY"]

    def read() -> pl.DataFrame:
        base = database.SqliteDatabase(path, "e")
        try:
            numbers = base.rowids("CUPTI_ACTIVITY_KIND_KERNEL").alias("rowid")
            return base.ints("CUPTI_ACTIVITY_KIND_KERNEL", columns).with_columns(numbers)
        finally:
            base.close()

    expected = read()
    assert expected.get_column("gridX").null_count() == 400
    with sqlite3.connect(path) as db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = '10' WHERE gridX = 10")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 15.0 WHERE gridX = 15")
    assert read().equals(expected)


def test_reports_work_on_what_another_profiler_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(
        '{"traceEvents": [{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":10,"dur":5,'
        '"args":{"device":0,"stream":7,"correlation":3,"grid":[2,1,1],"block":[32,1,1]}},'
        '{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":2,'
        '"args":{"correlation":3}}]}'
    )
    run = sightline.open(str(trace))
    assert run.ask("cuda_gpu_kern_sum").select("Name", "Total Time (ns)").rows() == [("gemm", 5000)]
    row = run.ask("cuda_kern_exec_trace").row(0, named=True)
    assert (row["Queue Dur (ns)"], row["Total Dur (ns)"]) == (7_000, 14_000)
    assert run.ask("cuda_gpu_trace").height == run.ask("cuda_api_trace").height == 1
    assert pl.DataFrame(
        run.ask("nvtx_gpu_proj_sum") if run.rows("device_ranges") else []
    ).is_empty()


def test_kernels_without_the_exports_texts_stay_two(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
            " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
            " demangledName INTEGER, shortName INTEGER)"
        )
        rows = [
            (100 * n, 100 * n + 50, 0, 1, 7, n, 1 << 24, 1 + 10 * (n % 2), 2) for n in range(20)
        ]
        db.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 9)})", rows)
    run = sightline.open(str(path))
    names = run.table("device_ops").get_column("name").value_counts().sort("name").rows()
    assert names == [("unnamed kernel 1", 10), ("unnamed kernel 11", 10)]
    assert "names_missing" in run.table("quality").get_column("kind")


def test_overhead_that_the_tool_had_no_name_for_is_loading(tmp_path):
    """A tool older than the CUPTI that it loads files module loading with its own costs."""
    e = Export()
    e.api("cudaLaunchKernel_v7000", 1_000, 9_000, 1)
    for name, start in (("Unknown", 1_100), ("CUPTI: Buffer flush", 9_500)):
        nameId = e.text(name)
        e.add(
            "PROFILER_OVERHEAD", start=start, end=start + 400, globalTid=gtid(7, 7), nameId=nameId
        )
    rows = opened(e, tmp_path).table("host_ops").filter(pl.col("layer") == "overhead")
    assert dict(rows.select("name", "category").rows()) == {
        "Unknown": "Runtime module loading (unnamed)",
        "CUPTI: Buffer flush": "Profiler",
    }
