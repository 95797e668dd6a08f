"""What the device did, by nvprof's tables: kernels, copies, fills, migrations; waits and events."""

from __future__ import annotations

import polars as pl

from sightline.core.cxx_names import demangle
from sightline.formats._sqlite import SqliteFile

# CUPTI, "Activity API": CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind and
# CUpti_ActivitySynchronizationType.
_COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
}  # fmt: skip
_MEMORY_KINDS = {
    1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static",
    7: "managed static",
}  # fmt: skip
_SYNC_KINDS = {1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}
# CUpti_ActivityUnifiedMemoryCounterKind: what moves bytes.
_MIGRATIONS = {1: "UVM HtoD", 2: "UVM DtoH", 8: "UVM DtoD"}
_CAUSES = {1: "user prefetch", 2: "page fault", 3: "speculative prefetch", 4: "eviction",
           5: "access counters"}  # fmt: skip
_NOTHING = 2**32 - 1  # "no such stream or event" in unsigned columns of 32 bits, and -1 in signed
_SHARED = ("start", "end", "deviceId", "contextId", "streamId", "correlationId")
_RENAMED = {
    "start": "start_ns", "end": "end_ns", "deviceId": "device_id", "contextId": "context_id",
    "streamId": "stream_id", "correlationId": "correlation_id",
    "gridX": "grid_x", "gridY": "grid_y", "gridZ": "grid_z",
    "blockX": "block_x", "blockY": "block_y", "blockZ": "block_z",
    "registersPerThread": "registers_per_thread", "staticSharedMemory": "static_shared_bytes",
    "dynamicSharedMemory": "dynamic_shared_bytes", "localMemoryPerThread": "local_bytes_per_thread",
    "localMemoryTotal": "local_bytes", "sharedMemoryExecuted": "shared_executed_bytes",
}  # fmt: skip
_KERNEL = (*_SHARED, "name", *(c for c in _RENAMED if c not in _SHARED))


def list_device_ops(db: SqliteFile, texts: dict[int, str]) -> pl.DataFrame:
    """Rows of `device_ops` without ids and launches, in order of time."""
    parts = [*_kernels(db, texts), *_copies(db), _fills(db), _migrations(db)]
    parts = [part for part in parts if part.height]
    if not parts:
        return pl.DataFrame()
    ops = pl.concat(parts, how="diagonal_relaxed").rename(_RENAMED, strict=False)
    return ops.sort("start_ns", "end_ns", maintain_order=True)


def _kernels(db: SqliteFile, texts: dict[int, str]) -> list[pl.DataFrame]:
    """Those that ran beside others and those that were kept apart: a file has one of the two."""
    found = []
    for table in ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL"):
        frame = db.ints(table, _KERNEL)
        used = frame.get_column("name").unique().drop_nulls()
        names = {n: demangle(texts[n]) for n in used if n in texts}
        found.append(
            frame.with_columns(
                kind=pl.lit("kernel"),
                name=pl.col("name")
                .replace_strict(names, default=None, return_dtype=pl.String)
                .fill_null("unknown kernel"),
            )
        )
    return found


def _copies(db: SqliteFile) -> list[pl.DataFrame]:
    wanted = (*_SHARED, "bytes", "copyKind", "srcKind", "dstKind")
    own = db.ints("CUPTI_ACTIVITY_KIND_MEMCPY", (*wanted, "runtimeCorrelationId"))
    peer = db.ints("CUPTI_ACTIVITY_KIND_MEMCPY2", (*wanted, "srcDeviceId", "dstDeviceId"))
    kinds = {
        "kind": pl.lit("memcpy"),
        "copy_kind": _decode("copyKind", _COPY_KINDS),
        "src_kind": _decode("srcKind", _MEMORY_KINDS),
        "dst_kind": _decode("dstKind", _MEMORY_KINDS),
    }
    frames = [
        # A copy that the driver makes for a call of the runtime has that call's number, too.
        own.with_columns(
            correlationId=pl.when(pl.col("runtimeCorrelationId") > 0)
            .then("runtimeCorrelationId")
            .otherwise("correlationId")
        ).drop("runtimeCorrelationId"),
        peer.rename({"srcDeviceId": "src_device_id", "dstDeviceId": "dst_device_id"}),
    ]
    return [
        frame.with_columns(**kinds)
        .with_columns(name=pl.format("[CUDA memcpy {}]", pl.col("copy_kind").fill_null("Unknown")))
        .drop("copyKind", "srcKind", "dstKind")
        for frame in frames
    ]


def _fills(db: SqliteFile) -> pl.DataFrame:
    frame = db.ints("CUPTI_ACTIVITY_KIND_MEMSET", (*_SHARED, "bytes", "value", "memoryKind"))
    return frame.with_columns(
        kind=pl.lit("memset"),
        name=pl.lit("[CUDA memset]"),
        dst_kind=_decode("memoryKind", _MEMORY_KINDS),
    ).drop("memoryKind").rename({"value": "fill_value"})  # fmt: skip


def _migrations(db: SqliteFile) -> pl.DataFrame:
    """Moves of unified memory, which count as copies of the device that they go to or from."""
    wanted = ("start", "end", "counterKind", "value", "srcId", "dstId", "address", "flags")
    frame = db.ints("CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER", wanted)
    kind = _decode("counterKind", _MIGRATIONS)
    moved = frame.with_columns(copy_kind=kind).filter(pl.col("copy_kind").is_not_null())
    return moved.select(
        "start",
        "end",
        "address",
        "copy_kind",
        # The host's number is 0 as a source of what goes to a device, and where it comes back to.
        deviceId=pl.when(pl.col("counterKind") == 1).then("dstId").otherwise("srcId"),
        bytes="value",
        kind=pl.lit("memcpy"),
        name=pl.format("[CUDA memcpy {}]", "copy_kind"),
        migration_cause=_decode("flags", _CAUSES),
        src_kind=pl.lit("managed"),
        dst_kind=pl.lit("managed"),
    )


def list_syncs(db: SqliteFile, devices: dict[int, int]) -> pl.DataFrame:
    """Waits: rows of `syncs` without the call. `devices`: a context's device."""
    wanted = ("start", "end", "type", "correlationId", "contextId", "streamId", "cudaEventId")
    frame = db.ints("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wanted)
    return frame.select(
        kind=_decode("type", _SYNC_KINDS).fill_null("unknown"),
        device_id=_place(devices),
        context_id="contextId",
        stream_id=_known("streamId"),
        event_id=_known("cudaEventId"),
        correlation_id="correlationId",
        start_ns="start",
        end_ns="end",
    )


def list_cuda_events(db: SqliteFile, devices: dict[int, int]) -> pl.DataFrame:
    """Recordings of events: rows of `cuda_events` without the call."""
    wanted = ("eventId", "correlationId", "contextId", "streamId")
    frame = db.ints("CUPTI_ACTIVITY_KIND_CUDA_EVENT", wanted)
    return frame.select(
        device_id=_place(devices),
        context_id="contextId",
        stream_id=_known("streamId"),
        event_id="eventId",
        correlation_id="correlationId",
    )


def _place(devices: dict[int, int]) -> pl.Expr:
    return pl.col("contextId").replace_strict(devices, default=None, return_dtype=pl.Int64)


def _decode(column: str, names: dict[int, str]) -> pl.Expr:
    return pl.col(column).replace_strict(names, default=None, return_dtype=pl.String)


def _known(column: str) -> pl.Expr:
    return pl.when(~pl.col(column).is_in([_NOTHING, -1])).then(pl.col(column)).alias(column)
