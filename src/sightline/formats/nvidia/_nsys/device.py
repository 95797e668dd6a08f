"""What the device did: kernels, copies, memsets, graphs recorded whole; waits and events."""

from __future__ import annotations

import polars as pl

from sightline.core.model.constants import find_constants
from sightline.formats.nvidia._nsys import codes
from sightline.formats.nvidia._nsys.codes import (
    NONE_32,
    decode_codes,
    keep_complete,
    keep_known,
    name_process,
    shrink_columns,
)
from sightline.formats.nvidia._nsys.database import Database

_SHARED = (
    "start",
    "end",
    "deviceId",
    "contextId",
    "greenContextId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
)
_KERNEL = (
    *_SHARED, "demangledName", "shortName", "mangledName", "launchType", "registersPerThread",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory",
    "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted",
    "graphId", "clusterX", "clusterY", "clusterZ", "maxActiveClusters", "qmdBulkReleaseDone",
    "qmdPreexitDone", "qmdLastCtaDone",
)  # fmt: skip
# What is only looked up, or passed on.
_LOOKED_UP = ("streamId", "correlationId")
_PASSED_ON = (
    *_LOOKED_UP, "demangledName", "shortName", "mangledName", "registersPerThread", "gridX",
    "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory",
    "localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted",
)  # fmt: skip
_MEMCPY = (
    *_SHARED,
    "bytes",
    "copyKind",
    "srcKind",
    "dstKind",
    "srcDeviceId",
    "dstDeviceId",
    "migrationCause",
    "virtualAddress",
)
_RENAMED = {
    "start": "start_ns", "end": "end_ns", "contextId": "context_id", "streamId": "stream_id",
    "greenContextId": "green_context_id", "correlationId": "correlation_id",
    "graphNodeId": "graph_node_id", "graphId": "graph_id", "graphExecId": "graph_exec_id",
    "gridX": "grid_x", "gridY": "grid_y", "gridZ": "grid_z",
    "blockX": "block_x", "blockY": "block_y", "blockZ": "block_z",
    "clusterX": "cluster_x", "clusterY": "cluster_y", "clusterZ": "cluster_z",
    "registersPerThread": "registers_per_thread", "staticSharedMemory": "static_shared_bytes",
    "dynamicSharedMemory": "dynamic_shared_bytes", "localMemoryPerThread": "local_bytes_per_thread",
    "localMemoryTotal": "local_bytes", "sharedMemoryExecuted": "shared_executed_bytes",
    "maxActiveClusters": "max_active_clusters", "qmdBulkReleaseDone": "pdl_bulk_release_ns",
    "qmdPreexitDone": "pdl_preexit_ns", "qmdLastCtaDone": "pdl_last_cta_ns",
    "virtualAddress": "address", "value": "fill_value",
}  # fmt: skip


def read(db: Database) -> pl.DataFrame:
    """All device operations, in the recording's own time, with the helper columns _gpid, deviceId.

    The columns are those of `device_ops`, without ids and launches.
    """
    parts = [part for part in (_kernels(db), _copies(db), _fills(db), _graphs(db)) if part.height]
    named = [
        shrink_columns(part).with_columns(pl.col("name").cast(pl.Categorical)) for part in parts
    ]
    frame = pl.concat(named, how="diagonal_relaxed") if parts else pl.DataFrame()
    frame = keep_complete(
        frame,
        ("start", "end", "deviceId", "globalPid", "correlationId", "graphNodeId"),
        ("kind", "name"),
    )
    if "greenContextId" in frame.columns:  # the vendor's own scripts: NULLIF(greenContextId, 0)
        frame = frame.with_columns(keep_known("greenContextId", 0))
    return frame.rename({k: v for k, v in _RENAMED.items() if k in frame.columns}).rename(
        {"globalPid": "_gpid"}
    )


UNNAMED = "unnamed kernel "  # and the number of its name


def _kernels(db: Database) -> pl.DataFrame:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    frame = db.take_ints(table, _KERNEL, _PASSED_ON)
    # Where the export lacks its texts, two kernels are still two.
    numbered = frame.select(pl.format(UNNAMED + "{}", "demangledName")).to_series()
    frame = db.named(
        frame, name="demangledName", short_name="shortName", mangled_name="mangledName"
    )
    return frame.with_columns(
        keep_known("graphNodeId", 0),
        keep_known("graphId", 0),
        keep_known("clusterX", 0),
        keep_known("clusterY", 0),
        keep_known("clusterZ", 0),
        keep_known("maxActiveClusters", 0),
        keep_known("qmdBulkReleaseDone", 0),
        keep_known("qmdPreexitDone", 0),
        keep_known("qmdLastCtaDone", 0),
        kind=pl.lit("kernel"),
        name=pl.coalesce(
            pl.col("name", "short_name", "mangled_name").cast(pl.String), numbered
        ).fill_null("unknown kernel"),
        launch_type=decode_codes("launchType", codes.LAUNCH_TYPES),
    ).drop("launchType")


def _copies(db: Database) -> pl.DataFrame:
    frame = db.take_ints("CUPTI_ACTIVITY_KIND_MEMCPY", _MEMCPY, _LOOKED_UP)
    labels = db.labels("ENUM_CUDA_MEMCPY_OPER") or _COPY_LABELS
    label = decode_codes("copyKind", labels).fill_null("Unknown")
    return frame.with_columns(
        keep_known("graphNodeId", 0),
        kind=pl.lit("memcpy"),
        name=pl.format("[CUDA memcpy {}]", label),
        copy_kind=decode_codes("copyKind", codes.COPY_KINDS),
        src_kind=decode_codes("srcKind", codes.MEMORY_KINDS),
        dst_kind=decode_codes("dstKind", codes.MEMORY_KINDS),
        migration_cause=decode_codes("migrationCause", codes.MIGRATION_CAUSES),
        src_device_id=keep_known("srcDeviceId", NONE_32),
        dst_device_id=keep_known("dstDeviceId", NONE_32),
        # Migrations of unified memory may name the device only as source or destination.
        deviceId=pl.coalesce(
            keep_known("deviceId", NONE_32),
            keep_known("dstDeviceId", NONE_32),
            keep_known("srcDeviceId", NONE_32),
        ),
    ).drop("copyKind", "srcKind", "dstKind", "migrationCause", "srcDeviceId", "dstDeviceId")


# Exports before 2021 carry no such table.
_COPY_LABELS = {
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}


def _fills(db: Database) -> pl.DataFrame:
    wanted = (*_SHARED, "bytes", "value", "memKind")
    frame = db.take_ints("CUPTI_ACTIVITY_KIND_MEMSET", wanted, _LOOKED_UP)
    return frame.with_columns(
        keep_known("graphNodeId", 0),
        kind=pl.lit("memset"),
        name=pl.lit("[CUDA memset]"),
        dst_kind=decode_codes("memKind", codes.MEMORY_KINDS),
    ).drop("memKind")


def _graphs(db: Database) -> pl.DataFrame:
    wanted = (*_SHARED, "graphId", "graphExecId")
    frame = db.take_ints("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", wanted, _LOOKED_UP)
    return frame.with_columns(
        kind=pl.lit("graph"),
        name=pl.format("CUDA graph {}", pl.col("graphId").cast(pl.String).fill_null("?")),
    )


def number_machines(places: pl.DataFrame, db: Database) -> pl.Series | pl.Expr:
    """`gpuId`, the machine's number of each `deviceId` of a `pid`; null where it is not known."""
    table = db.ints("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid")).drop_nulls()
    known_ids = table.unique(["cudaId", "pid"], keep="first").rename({"cudaId": "deviceId"})
    on = ["deviceId", "pid"]
    one = find_constants(places, on)
    if len(one) == len(on):  # as of most ranks
        found = known_ids.filter(**one).get_column("gpuId")
        return pl.lit(found[0] if found.len() else None, pl.Int64).alias("gpuId")
    return places.join(known_ids, on=on, how="left", maintain_order="left").get_column("gpuId")


def renumber_events(frame: pl.DataFrame, db: Database) -> pl.DataFrame:
    """A table with `device_id` and `pid`, its devices numbered as in `device_ops`."""
    gpu = number_machines(frame.select("pid", deviceId="device_id"), db)
    return (
        frame.with_columns(gpu)
        .with_columns(device_id=pl.coalesce("gpuId", "device_id"))
        .drop("gpuId")
    )


def name_physical(ops: pl.DataFrame, db: Database) -> tuple[pl.DataFrame, int, list[int]]:
    """`deviceId`, a process' own number of a device, as `device_id`, the machine's number.

    Two processes may both call a different GPU 0 (CUDA_VISIBLE_DEVICES): taken for one device,
    its idle time would be wrong. Also the count of operations that name no device, and the
    devices that several processes use without the export saying whether they are the same one.
    """
    gpu = number_machines(ops.select("deviceId", pid=name_process("_gpid")), db)
    frame = ops.with_columns(gpu, pid=name_process("_gpid"))
    without = frame.select(pl.col("deviceId").null_count()).item()
    unmapped = (
        frame.select("deviceId", "gpuId", "_gpid")
        .filter(pl.col("gpuId").is_null() & pl.col("deviceId").is_not_null())
        .group_by("deviceId")
        .agg(pl.col("_gpid").n_unique())
        .filter(pl.col("_gpid") > 1)
    )
    frame = frame.with_columns(
        device_id=pl.coalesce("gpuId", "deviceId", pl.lit(0, pl.Int64))
    ).drop("gpuId", "deviceId")
    return frame, without, sorted(unmapped.get_column("deviceId").to_list())


def syncs(db: Database) -> pl.DataFrame:
    """Waits, with the stream and call that recorded the event that they wait for."""
    frame = db.ints(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        (
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "syncType",
            "eventId",
            "eventSyncId",
        ),
    )
    recorded = (
        events(db)
        .filter(pl.col("event_sync_id").is_not_null())
        .select(
            "_gpid",
            "event_sync_id",
            wait_on_stream_id="stream_id",
            recorded_by_correlation_id="correlation_id",
        )
        .unique(["_gpid", "event_sync_id"], keep="first", maintain_order=True)
    )
    return frame.select(
        kind=decode_codes("syncType", codes.SYNC_KINDS).fill_null("unknown"),
        _gpid="globalPid",
        pid=name_process("globalPid"),
        device_id="deviceId",
        context_id=keep_known("contextId", NONE_32),
        stream_id=keep_known("streamId", NONE_32),
        event_id=keep_known("eventId", NONE_32),
        event_sync_id=keep_known("eventSyncId", NONE_32),
        correlation_id="correlationId",
        start_ns="start",
        end_ns="end",
    ).join(recorded, on=["_gpid", "event_sync_id"], how="left", maintain_order="left")


def events(db: Database) -> pl.DataFrame:
    """Recordings of CUDA events."""
    # The first column decides whether there are rows; older exports have no timestamp.
    frame = db.ints(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        (
            "eventId",
            "timestamp",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "eventSyncId",
        ),
    )
    return frame.select(
        time_ns=keep_known("timestamp", 0),
        device_id="deviceId",
        context_id="contextId",
        stream_id=keep_known("streamId", NONE_32),
        event_id="eventId",
        event_sync_id=keep_known("eventSyncId", NONE_32),
        _gpid="globalPid",
        pid=name_process("globalPid"),
        correlation_id="correlationId",
    )
