"""What the device did: kernels, copies, fills, graphs recorded whole; waits, events, pools."""

from __future__ import annotations

import polars as pl

from sightline.core.cxx_names import demangle
from sightline.formats.nvidia.cupti import codes
from sightline.formats.nvidia.cupti.codes import NONE_32, decode_codes, keep_known
from sightline.formats.nvidia.cupti.file import CuptiFile

# No clock has times beyond this: what has them is damaged.
TIME_LIMIT = 1 << 61
_PLACES = {"device": "device_id", "context": "context_id", "stream": "stream_id"}


def list_device_ops(file: CuptiFile) -> tuple[pl.DataFrame, int, int]:
    """Rows of `device_ops` without ids and launches, in order of time.

    Also how many records have no times, which CUPTI leaves where the device had no memory for
    them, and how many a start alone: they were handed over while their work still ran.
    """
    parts = [_kernels(file), _copies(file), _peer_copies(file), _fills(file), _graphs(file)]
    parts.append(_decompressions(file))
    ops = pl.concat([p for p in parts if p.height] or parts[:1], how="diagonal_relaxed")
    if ops.is_empty():
        return ops, 0, 0
    times = pl.col("start_ns"), pl.col("end_ns")
    untimed, unfinished = ops.select(
        untimed=(times[0] <= 0).sum(), unfinished=((times[0] > 0) & (times[1] < times[0])).sum()
    ).row(0)
    is_timed = times[0].is_between(1, TIME_LIMIT) & times[1].is_between(times[0], TIME_LIMIT)
    kept = ops.filter(is_timed).sort("start_ns", "end_ns", maintain_order=True)
    return kept, untimed, unfinished


def _place(frame: pl.DataFrame, kind: str) -> list[pl.Expr]:
    """What all records of work on a device have."""
    graph = [
        keep_known(column).alias(name)
        for column, name in (("graph", "graph_id"), ("graph_node", "graph_node_id"))
        if column in frame.columns
    ]
    return [
        pl.col("start").alias("start_ns"),
        pl.col("end").alias("end_ns"),
        # 0 is no call's number.
        keep_known("correlation").alias("correlation_id"),
        *(pl.col(column).alias(name) for column, name in _PLACES.items()),
        pl.lit(kind).alias("kind"),
        *graph,
    ]


def _kernels(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("kernels")
    if frame.is_empty():
        return pl.DataFrame()
    names = frame.get_column("name").unique().drop_nulls().to_list()
    plain = {name: demangle(name) for name in names}
    is_clustered = pl.col("cluster_x") > 0
    return frame.select(
        *_place(frame, "kernel"),
        *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
        *(pl.when(is_clustered).then(f"cluster_{axis}").alias(f"cluster_{axis}") for axis in "xyz"),
        registers_per_thread="registers",
        static_shared_bytes="static_shared",
        dynamic_shared_bytes="dynamic_shared",
        shared_executed_bytes="shared_executed",
        local_bytes_per_thread="local_per_thread",
        local_bytes="local",
        max_active_clusters=keep_known("max_active_clusters"),
        launch_type=decode_codes("launch_type", codes.LAUNCH_TYPES),
        name=pl.col("name")
        .replace_strict(plain, default=None, return_dtype=pl.String)
        .fill_null("unknown kernel"),
        mangled_name="name",
    )


def _copies(file: CuptiFile) -> pl.DataFrame:
    return _name_copies(file.frame("copies"))


def _peer_copies(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("peer_copies")
    if frame.is_empty():
        return pl.DataFrame()
    ends = frame.select(src_device_id="src_device", dst_device_id="dst_device")
    return _name_copies(frame).hstack(ends)


def _name_copies(frame: pl.DataFrame) -> pl.DataFrame:
    if frame.is_empty():
        return pl.DataFrame()
    return frame.select(
        *_place(frame, "memcpy"),
        "bytes",
        name=decode_codes("copy_kind", codes.COPY_NAMES).fill_null("[CUDA memcpy]"),
        copy_kind=decode_codes("copy_kind", codes.COPY_KINDS),
        src_kind=decode_codes("src_kind", codes.MEMORY_KINDS),
        dst_kind=decode_codes("dst_kind", codes.MEMORY_KINDS),
    )


def _fills(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("fills")
    if frame.is_empty():
        return pl.DataFrame()
    return frame.select(
        *_place(frame, "memset"),
        "bytes",
        name=pl.lit("[CUDA memset]"),
        dst_kind=decode_codes("memory_kind", codes.MEMORY_KINDS),
        fill_value="value",
    )


def _graphs(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("graphs")
    if frame.is_empty():
        return pl.DataFrame()
    return frame.select(*_place(frame, "graph"), name=pl.format("CUDA graph {}", "graph"))


def _decompressions(file: CuptiFile) -> pl.DataFrame:
    """Batches of copies that the device decompressed, each one operation: the bytes are packed."""
    frame = file.frame("decompressions")
    if frame.is_empty():
        return pl.DataFrame()
    return frame.select(*_place(frame, "memcpy"), "bytes", name=pl.lit("[CUDA decompression]"))


def list_syncs(file: CuptiFile) -> pl.DataFrame:
    """Rows of `syncs` without the calls that wait."""
    frame = file.frame("syncs")
    if frame.is_empty():
        return pl.DataFrame()
    devices = _map_contexts(file)
    return frame.filter(pl.col("start").is_between(1, TIME_LIMIT)).select(
        kind=decode_codes("type", codes.SYNC_KINDS).fill_null("unknown"),
        device_id=pl.col("context").replace_strict(devices, default=None, return_dtype=pl.Int64),
        context_id="context",
        stream_id=keep_known("stream", NONE_32),
        event_id=keep_known("event", NONE_32),
        correlation_id=keep_known("correlation"),
        start_ns="start",
        end_ns=pl.max_horizontal("start", pl.col("end").clip(0, TIME_LIMIT)),
    )


def list_events(file: CuptiFile) -> pl.DataFrame:
    """Rows of `cuda_events` without the calls that recorded them."""
    frame = file.frame("events")
    if frame.is_empty():
        return pl.DataFrame()
    devices = _map_contexts(file)
    return frame.select(
        device_id=pl.col("context").replace_strict(devices, default=None, return_dtype=pl.Int64),
        context_id="context",
        stream_id=keep_known("stream", NONE_32),
        event_id="event",
        correlation_id=keep_known("correlation"),
    )


def list_pools(file: CuptiFile) -> pl.DataFrame:
    """Rows of `memory_pools`."""
    frame = file.frame("pools")
    if frame.is_empty():
        return pl.DataFrame()
    return frame.filter(pl.col("time").is_between(1, TIME_LIMIT)).select(
        time_ns="time",
        device_id="device",
        address="address",
        action=decode_codes("action", codes.POOL_ACTIONS).fill_null("unknown"),
        pool_type=decode_codes("type", codes.POOL_TYPES),
        pool_bytes="bytes",
        used_bytes="used",
        release_threshold_bytes="release_threshold",
        min_bytes_to_keep="min_bytes_to_keep",
        correlation_id=keep_known("correlation"),
    )


def list_devices(file: CuptiFile, *, keep_identity: bool) -> pl.DataFrame:
    """Rows of `devices`: what CUPTI says of each. A UUID tells one GPU of the world from others."""
    frame = file.frame("devices")
    if frame.is_empty():
        return pl.DataFrame()
    # A device is told again when a kind of activity is enabled anew.
    return frame.unique("device", keep="first", maintain_order=True).select(
        device_id="device",
        vendor=pl.lit("nvidia"),
        name="name",
        sm_count="sms",
        max_clock_hz=pl.col("clock_khz") * 1000,
        memory_bytes="memory",
        memory_bandwidth_bytes_per_s=pl.col("memory_bandwidth") * 1000,
        compute_capability=pl.format("{}.{}", "major", "minor"),
        warp_size="warp",
        max_threads_per_sm=pl.col("warps_per_sm") * pl.col("warp"),
        registers_per_sm="registers_per_sm",
        shared_bytes_per_sm="shared_per_sm",
        l2_bytes="l2",
        uuid=_name_uuid() if keep_identity else pl.lit(None, pl.String),
    )


def _name_uuid() -> pl.Expr:
    """As nvidia-smi and NVML write it; null where the file has none."""

    def write(row: dict[str, int]) -> str:
        words = (row["uuid_first"], row["uuid_last"])
        text = b"".join((word & (1 << 64) - 1).to_bytes(8, "little") for word in words).hex()
        return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    is_known = (pl.col("uuid_first") != 0) | (pl.col("uuid_last") != 0)
    both = pl.when(is_known).then(pl.struct("uuid_first", "uuid_last"))
    return both.map_elements(write, return_dtype=pl.String, skip_nulls=True)


def _map_contexts(file: CuptiFile) -> dict[int, int]:
    """The device of each context."""
    known = file.frame("contexts")
    found: dict[int, int] = {}
    if known.height:
        found = dict(known.select("context", "device").iter_rows())
    # A green context is a part of a device's SMs, under a number of its own.
    found |= dict(file.frame("green_contexts").select("context", "device").iter_rows())
    kernels = file.frame("kernels")
    if kernels.height:
        seen = kernels.select("context", "device").unique().sort("context")
        found = {**dict(seen.iter_rows()), **found}
    return found
