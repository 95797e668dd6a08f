"""GPUs that an export describes: TARGET_INFO_GPU, before 2022 also TARGET_INFO_CUDA_GPU."""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._nsys.database import Database

_GPU = {
    "device_id": "id",
    "name": "name",
    "uuid": "uuid",
    "sm_count": "smCount",
    "max_clock_hz": "clockRate",
    "memory_bytes": "totalMemory",
    "memory_bandwidth_bytes_per_s": "memoryBandwidth",
    "warp_size": "threadsPerWarp",
    "registers_per_sm": "maxRegistersPerSm",
    "shared_bytes_per_sm": "maxShmemPerSm",
    "l2_bytes": "l2CacheSize",
    "copy_engines": "asyncEngines",
    "major": "computeMajor",
    "minor": "computeMinor",
    "warps": "maxWarpsPerSm",
}
# Nsight Systems until 2021 has one row for each process and device, clocks in kHz, bandwidth in
# kB/s, and memory in MiB (2020) or bytes (2021): seen in exports of both, held against the GPUs'
# datasheets. Where it has no figure, it writes 0.
_CUDA_GPU = {
    "device_id": "deviceId",
    "name": "name",
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
}
# The same versions' TARGET_INFO_GPU, where the other table was not written.
_NAMED_GPU = {"device_id": "deviceId", "name": "name"}
_KILO, _LARGEST_MIB = 1000, 2**24  # 2^24 MiB are 16 TiB: no GPU has as much


def list_devices(db: Database, ops: pl.DataFrame, *, keep_identity: bool) -> pl.DataFrame:
    """GPUs that the export describes, and those that only appear in the timeline."""
    described = _read(db, "TARGET_INFO_GPU", _GPU)
    for older in (_read_cuda_gpus(db), _read(db, "TARGET_INFO_GPU", _NAMED_GPU)):
        new = older.join(described, on="device_id", how="anti", maintain_order="left")
        described = pl.concat([described, new], how="diagonal_relaxed")
    if not keep_identity:
        described = described.with_columns(uuid=pl.lit(None, pl.String))
    used = ops.select("device_id").unique()
    return (
        pl.concat([described, used.join(described, on="device_id", how="anti")], how="diagonal")
        # Nothing else than NVIDIA's GPUs is recorded by it.
        .with_columns(
            vendor=pl.lit("nvidia"),
            compute_capability=pl.format("{}.{}", "major", "minor"),
            max_threads_per_sm=pl.col("warps") * pl.col("warp_size"),
        )
        .drop("major", "minor", "warps")
        .sort("device_id")
    )


def _read(db: Database, table: str, columns: dict[str, str]) -> pl.DataFrame:
    """One row for each device that the table describes; whole numbers, or null."""
    rows = db.rows(table, sorted(set(columns.values())))
    numbers = [c for c in columns.values() if c not in ("name", "uuid")]
    return (
        rows.with_columns(pl.col(numbers).cast(pl.Int64, strict=False))
        .drop_nulls(columns["device_id"])
        .select(**{name: pl.col(column) for name, column in columns.items()})
        .unique("device_id", keep="first", maintain_order=True)
    )


def _read_cuda_gpus(db: Database) -> pl.DataFrame:
    memory = pl.col("memory_bytes")
    rows = _read(db, "TARGET_INFO_CUDA_GPU", _CUDA_GPU)
    in_kilo = ("max_clock_hz", "memory_bandwidth_bytes_per_s")
    sizes = pl.col(*(c for c in _CUDA_GPU if c not in ("name", "device_id", "minor")))
    return rows.with_columns(sizes.replace(0, None)).with_columns(
        pl.col(*in_kilo) * _KILO,
        memory_bytes=pl.when(memory < _LARGEST_MIB).then(memory * 2**20).otherwise(memory),
    )
