"""Metrics over time, memory, page faults, graphs, files: the smaller tables of an export."""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._nsys import codes
from sightline.formats.nvidia._nsys.codes import decode_codes, keep_known, name_process
from sightline.formats.nvidia._nsys.database import Database


def read_counters(db: Database, *, keep_identity: bool) -> pl.DataFrame:
    """GPU and network metrics."""
    return pl.concat([_gpu_metrics(db), _network(db, keep_identity=keep_identity)], how="diagonal")


def _gpu_metrics(db: Database) -> pl.DataFrame:
    names = db.rows("TARGET_INFO_GPU_METRICS", ["typeId", "metricId", "metricName"]).select(
        pl.col("typeId").cast(pl.Int64, strict=False),
        pl.col("metricId").cast(pl.Int64, strict=False),
        pl.col("metricName").cast(pl.String),
    )
    columns = ("timestamp", "typeId", "metricId")
    if db.is_integer("GPU_METRICS", "value"):
        rows = db.ints("GPU_METRICS", (*columns, "value"))
    else:
        rows = db.ints("GPU_METRICS", columns)
        reals = db.rows("GPU_METRICS", ["value"]).get_column("value").cast(pl.Float64, strict=False)
        # Of a damaged table the two may end in different places: then no value is sure.
        sure = reals.len() == rows.height
        rows = rows.with_columns(reals.alias("value") if sure else pl.lit(None).alias("value"))
    unit = pl.col("metricName").str.extract(r"\[([^\]]*)\]\s*$")
    return (
        rows.join(
            names.unique(["typeId", "metricId"], keep="first"),
            on=["typeId", "metricId"],
            how="left",
            maintain_order="left",
        )
        .select(
            metric=pl.coalesce("metricName", pl.format("metric {}", pl.col("metricId"))),
            unit=unit,
            # Its lowest byte is the GPU: SQLite Schema Reference, "GPU Metrics".
            device_id=pl.col("typeId") % 256,
            time_ns="timestamp",
            value=pl.col("value").cast(pl.Float64),
        )
        .sort("time_ns", maintain_order=True)
    )


def _network(db: Database, *, keep_identity: bool) -> pl.DataFrame:
    names = db.rows(
        "TARGET_INFO_NETWORK_METRICS", ["metricsListId", "metricsIdx", "name", "unit"]
    ).select(
        pl.col("metricsListId").cast(pl.Int64, strict=False),
        pl.col("metricsIdx").cast(pl.Int64, strict=False),
        metric=pl.col("name").cast(pl.String),
        unit=pl.col("unit").cast(pl.String),
    )
    cards = (
        db.rows("TARGET_INFO_NIC_INFO", ["nicId", "name", "GUID"])
        .select(
            pl.col("nicId").cast(pl.Int64, strict=False),
            card=pl.col("name").cast(pl.String),
            guid=pl.col("GUID").cast(pl.String),
        )
        .join(
            db.ints("NIC_ID_MAP", ("nicId", "globalId")).unique("globalId"), on="nicId", how="inner"
        )
        .drop("nicId")
        .unique("globalId", keep="first")
    )
    parts = []
    for table, is_card in (("NET_NIC_METRIC", True), ("NET_IB_SWITCH_METRIC", False)):
        rows = db.ints(
            table, ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value")
        )
        rows = rows.join(
            names.unique(["metricsListId", "metricsIdx"], keep="first"),
            on=["metricsListId", "metricsIdx"],
            how="left",
            maintain_order="left",
        ).join(cards, on="globalId", how="left", maintain_order="left")
        source = pl.coalesce("card", pl.lit("NIC" if is_card else "InfiniBand switch"))
        if keep_identity:
            source = pl.concat_str(
                [source, pl.coalesce("guid", pl.col("globalId").cast(pl.String))], separator=" "
            )
        parts.append(
            rows.select(
                metric=pl.coalesce("metric", pl.format("metric {}", pl.col("metricsIdx"))),
                unit="unit",
                source=pl.concat_str(
                    [source, pl.format(" port {}", pl.col("portId")).fill_null("")]
                ),
                from_ns="start",
                time_ns=pl.coalesce("end", "start"),
                value=pl.col("value").cast(pl.Float64),
            )
        )
    return pl.concat(parts)


def read_memory(db: Database) -> pl.DataFrame:
    """Allocations and frees of device memory (recorded with --cuda-memory-usage)."""
    table = "CUDA_GPU_MEMORY_USAGE_EVENTS"
    rows = db.ints(
        table,
        (
            "start",
            "globalPid",
            "deviceId",
            "address",
            "bytes",
            "memKind",
            "memoryOperationType",
            "correlationId",
            "streamId",
            "localMemoryPoolAddress",
            "localMemoryPoolUtilizedSize",
            "localMemoryPoolSize",
        ),
    )
    told = db.rows(table, ["name"]).get_column("name").cast(pl.String)
    # A report has no names, and of a damaged table the two may end in different places.
    name = told if told.len() == rows.height else pl.lit(None, pl.String)
    return rows.with_columns(name.alias("name")).select(
        time_ns="start",
        device_id="deviceId",
        action=decode_codes("memoryOperationType", {0: "alloc", 1: "free"}).fill_null("unknown"),
        address="address",
        bytes="bytes",
        allocated_bytes="localMemoryPoolUtilizedSize",
        reserved_bytes="localMemoryPoolSize",
        pid=name_process("globalPid"),
        memory_kind=decode_codes("memKind", codes.MEMORY_KINDS),
        name=pl.when(pl.col("name") != "").then("name"),
        stream_id="streamId",
        pool_address=keep_known("localMemoryPoolAddress", 0),
        correlation_id="correlationId",
        _gpid="globalPid",
    )


def read_pools(db: Database) -> pl.DataFrame:
    """Memory pools being created, trimmed, destroyed."""
    rows = db.ints(
        "CUDA_GPU_MEMORY_POOL_EVENTS",
        (
            "start",
            "globalPid",
            "deviceId",
            "address",
            "operationType",
            "poolType",
            "correlationId",
            "minBytesToKeep",
            "localMemoryPoolReleaseThreshold",
            "localMemoryPoolSize",
            "localMemoryPoolUtilizedSize",
        ),
    )
    return rows.select(
        time_ns="start",
        device_id="deviceId",
        pid=name_process("globalPid"),
        address="address",
        action=decode_codes("operationType", codes.POOL_ACTIONS).fill_null("unknown"),
        pool_type=decode_codes("poolType", codes.POOL_TYPES),
        pool_bytes="localMemoryPoolSize",
        used_bytes="localMemoryPoolUtilizedSize",
        release_threshold_bytes="localMemoryPoolReleaseThreshold",
        min_bytes_to_keep="minBytesToKeep",
        correlation_id="correlationId",
    )


def read_page_faults(db: Database) -> pl.DataFrame:
    """Unified memory page faults, of CPU and GPU."""
    cpu = db.ints(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        ("start", "globalPid", "address", "CpuInstruction", "module", "sourceFile", "sourceLine"),
    )
    gpu = db.ints(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        (
            "start",
            "end",
            "globalPid",
            "deviceId",
            "address",
            "numberOfPageFaults",
            "faultAccessType",
        ),
    )
    cpu = db.named(cpu, function="CpuInstruction", module_name="module", file="sourceFile")
    return pl.concat(
        [
            cpu.select(
                time_ns="start",
                pid=name_process("globalPid"),
                side=pl.lit("cpu"),
                address="address",
                count=pl.lit(1, pl.Int64),
                function="function",
                module="module_name",
                file="file",
                line="sourceLine",
            ),
            gpu.select(
                time_ns="start",
                end_ns="end",
                pid=name_process("globalPid"),
                side=pl.lit("gpu"),
                device_id="deviceId",
                address="address",
                count="numberOfPageFaults",
                access=decode_codes("faultAccessType", codes.ACCESS_TYPES),
            ),
        ],
        how="diagonal",
    ).sort("time_ns", maintain_order=True)


def read_workloads(db: Database) -> pl.DataFrame:
    """What OpenGL had the GPU do: from the first command of a range to its last.

    Not how long the GPU was busy with it, nor on which GPU that was: no device operations.
    """
    rows = db.ints("OPENGL_WORKLOAD", ("start", "end", "nameId", "endNameId"))
    named = db.named(rows, first="nameId", last="endNameId")
    other = pl.when(pl.col("last") != pl.col("first")).then(pl.format(" … {}", "last"))
    return named.select(
        name=pl.concat_str(pl.col("first").fill_null("OpenGL"), other.fill_null("")),
        start_ns="start",
        end_ns=pl.coalesce("end", "start"),
    )


def read_graphs(db: Database) -> pl.DataFrame:
    """Creation, cloning and instantiation of CUDA graphs and their nodes."""
    parts = []
    for table in ("CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"):
        rows = db.ints(
            table,
            (
                "start",
                "end",
                "globalTid",
                "nameId",
                "graphId",
                "originalGraphId",
                "graphExecId",
                "graphNodeId",
                "originalGraphNodeId",
            ),
        )
        parts.append(
            db.named(rows, name="nameId").select(
                start_ns="start",
                end_ns=pl.coalesce("end", "start"),
                pid=name_process("globalTid"),
                tid=codes.name_thread("globalTid"),
                name="name",
                graph_id="graphId",
                original_graph_id="originalGraphId",
                graph_exec_id="graphExecId",
                graph_node_id="graphNodeId",
                original_graph_node_id="originalGraphNodeId",
            )
        )
    return pl.concat(parts)


def read_file_accesses(db: Database, *, keep_identity: bool) -> pl.DataFrame:
    """Accesses to files. Their paths name people and projects: kept only when asked for."""
    rows = db.ints(
        "OSRT_FILE_ACCESS_EVENTS",
        ("startedAt", "endedAt", "fileAccessId", "threadId", "eventType", "bytesProcessed"),
    )
    paths = db.rows(
        "OSRT_FILE_ACCESS_DESCRIPTORS", ["fileAccessId", "processId", "filePath"]
    ).select(
        pl.col("fileAccessId").cast(pl.Int64, strict=False),
        pid=pl.col("processId").cast(pl.Int64, strict=False),
        path=pl.col("filePath").cast(pl.String),
    )
    path = pl.col("path") if keep_identity else pl.lit(None, pl.String)
    return rows.join(
        paths.unique("fileAccessId", keep="first"),
        on="fileAccessId",
        how="left",
        maintain_order="left",
    ).select(
        start_ns="startedAt",
        end_ns=pl.coalesce("endedAt", "startedAt"),
        pid="pid",
        tid="threadId",  # here the export has plain ids
        file_number="fileAccessId",
        action=decode_codes("eventType", codes.FILE_ACTIONS),
        bytes="bytesProcessed",
        path=path,
    )
