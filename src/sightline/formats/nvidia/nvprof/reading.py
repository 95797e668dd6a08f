"""Puts nvprof's tables together: ids, launches, devices, what limits them."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX
from sightline.formats._sqlite import SqliteFile
from sightline.formats.nvidia.nvprof import device, host

_AGAIN = "Copy the file again from where it was recorded, or record again."
_TODAY = "Record again with a current tool:  sightline run -- PROGRAM  or  nsys profile"
# Times beyond half the range are damage: sums and differences of the others cannot overflow.
_TIME_LIMIT = INT64_MAX // 4
_DEVICE = {
    "device_id": "id",
    "sm_count": "numMultiprocessors",
    "max_clock_hz": "coreClockRate",
    "memory_bytes": "globalMemorySize",
    "memory_bandwidth_bytes_per_s": "globalMemoryBandwidth",
    "warp_size": "numThreadsPerWarp",
    "registers_per_sm": "maxRegistersPerMultiprocessor",
    "shared_bytes_per_sm": "maxSharedMemoryPerMultiprocessor",
    "l2_bytes": "l2CacheSize",
    "major": "computeCapabilityMajor",
    "minor": "computeCapabilityMinor",
    "warps": "maxWarpsPerMultiprocessor",
    "name": "name",
}
_KILO = 1000  # clocks are in kHz, and the memory's rate in kB/s
# What a session of counters wrote, which no table of ours has from nvprof.
_COUNTERS = (
    "CUPTI_ACTIVITY_KIND_EVENT",
    "CUPTI_ACTIVITY_KIND_METRIC",
    "CUPTI_ACTIVITY_KIND_EVENT_INSTANCE",
    "CUPTI_ACTIVITY_KIND_METRIC_INSTANCE",
)


def read_file(source: Source, options: ImportOptions) -> Imported:
    """All tables that are known. Raises DamagedError where SQLite cannot open it."""
    db = SqliteFile(source.plain_path(), source.given, _AGAIN)
    try:
        texts = _read_texts(db)
        ops = device.list_device_ops(db, texts)
        calls = host.list_host_ops(db, texts)
        contexts = db.ints("CUPTI_ACTIVITY_KIND_CONTEXT", ("contextId", "deviceId")).drop_nulls()
        places = dict(contexts.rows())
        waits, events = device.list_syncs(db, places), device.list_cuda_events(db, places)
        devices = _read_devices(db, texts)
        counted = [table for table in _COUNTERS if db.count(table)]
        untimed = ops.height
        ops = _keep_timed(ops)
        quality = _note_limits(db, ops, calls, counted, untimed - ops.height)
        quality += db.note_structure()
    finally:
        db.close()
    launches = calls.filter(pl.col("layer").is_in(["runtime", "driver"])).select(
        "correlation_id", "host_op_id"
    )
    by_call = launches.drop_nulls().unique("correlation_id", keep="first", maintain_order=True)
    tables = {
        "host_ops": calls,
        "syncs": _tie(waits, by_call, "host_op_id"),
        "cuda_events": _tie(events, by_call, "host_op_id"),
        "devices": devices,
    }
    if ops.height:
        ops = ops.with_columns(device_op_id=pl.int_range(pl.len(), dtype=pl.Int64))
        tables["device_ops"] = _tie(ops, by_call, "launch_id")
    return Imported({n: f for n, f in tables.items() if f.height}, Recording("nvprof"), quality)


def _tie(frame: pl.DataFrame, calls: pl.DataFrame, column: str) -> pl.DataFrame:
    """With the call that has the row's number, under this name."""
    named = calls.rename({"host_op_id": column})
    if "correlation_id" not in frame.columns:
        return frame
    return frame.join(named, on="correlation_id", how="left", maintain_order="left")


def _keep_timed(ops: pl.DataFrame) -> pl.DataFrame:
    """Operations with a start and an end behind it."""
    if ops.is_empty():
        return ops
    start, end = pl.col("start_ns"), pl.col("end_ns")
    return ops.filter(start.is_between(1, _TIME_LIMIT), end.is_between(start, _TIME_LIMIT))


def _read_texts(db: SqliteFile) -> dict[int, str]:
    return dict(db.texts("StringTable", "value").rows())


def _read_devices(db: SqliteFile, texts: dict[int, str]) -> pl.DataFrame:
    rows = db.ints("CUPTI_ACTIVITY_KIND_DEVICE", tuple(_DEVICE.values()))
    frame = rows.select(**{name: pl.col(column) for name, column in _DEVICE.items()})
    named = {n: texts[n] for n in frame.get_column("name").drop_nulls() if n in texts}
    return (
        frame.drop_nulls("device_id")
        .unique("device_id", keep="first", maintain_order=True)
        .with_columns(
            pl.col("max_clock_hz", "memory_bandwidth_bytes_per_s") * _KILO,
            vendor=pl.lit("nvidia"),
            name=pl.col("name").replace_strict(named, default=None, return_dtype=pl.String),
            compute_capability=pl.format("{}.{}", "major", "minor"),
            max_threads_per_sm=pl.col("warps") * pl.col("warp_size"),
        )
        .drop("major", "minor", "warps")
    )


def _note_limits(
    db: SqliteFile, ops: pl.DataFrame, calls: pl.DataFrame, counted: list[str], untimed: int
) -> list[Quality]:
    found = []
    if db.cut_off:
        text = "the file is cut off: its last tables are missing"
        found.append(Quality("cut_off", "error", text, None, _AGAIN))
    for table, why in sorted(db.lost.items()):
        text = f"table {table} could only be read in part ({why})"
        found.append(Quality("damaged_table", "error", text, None, _AGAIN))
    for table, count in sorted(db.malformed.items()):
        text = f"table {table} has values that are not integers"
        found.append(Quality("malformed_values", "warning", text, count))
    if untimed:
        text = f"{untimed} device operations have no times, and are left out"
        found.append(Quality("untimed_ops", "warning", text, untimed))
    if counted:
        text = "the file holds nvprof's counters, which are not read"
        found.append(Quality("unread_tables", "info", text, len(counted)))
    if counted and ops.height:
        # CUPTI's event collection mode KERNEL, which nvprof uses: one kernel at a time, replayed.
        text = (
            "hardware counters were collected, for which kernels run one at a time and again for "
            "each group of counters: the profiler causes the gaps between them, and nothing "
            "overlaps"
        )
        remedy = "For the timeline, record without counters:  nvprof -o FILE PROGRAM"
        found.append(Quality("serialized_kernels", "warning", text, None, remedy))
    if ops.is_empty() and calls.is_empty():
        text = "nothing was recorded: the file has no kernel, no copy and no call"
        remedy = (
            "Look at what the program printed (a driver that is not found, a GPU that nvprof does "
            f"not know: those after Volta). {_TODAY}"
        )
        found.append(Quality("nothing_recorded", "error", text, None, remedy))
    elif ops.is_empty():
        text = "no GPU operations were recorded, only calls"
        found.append(Quality("no_device_ops", "warning", text, None, _TODAY))
    elif calls.is_empty():
        text = "no calls were recorded, so the causes of idle time are unknown"
        found.append(Quality("no_host", "info", text, None, _TODAY))
    return found
