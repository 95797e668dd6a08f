"""What the readers of rocprof-compute's two formats share: the names that it has, and the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sightline.core.units import INT64_MAX
from sightline.formats._ncu import make_frame

# Registers and memory of a dispatch, kept as metrics: what limits its occupancy.
LAUNCH = ("Arch_VGPR", "Accum_VGPR", "SGPR", "LDS_Per_Workgroup", "Scratch_Per_Workitem")
# What sysinfo.csv says of the GPU, kept as metrics: its peaks are computed of them.
MACHINE = (
    "max_sclk", "max_mclk", "cu_per_gpu", "simd_per_cu", "se_per_gpu", "wave_size",
    "max_waves_per_cu", "total_l2_chan", "lds_banks_per_cu", "sqc_per_gpu", "pipes_per_gpu",
    "hbm_bw", "num_xcd", "num_hbm_channels",
)  # fmt: skip


def make_kernels(dispatches: pl.DataFrame) -> pl.DataFrame:
    """Table `profiled_kernels`, of kernel_id, name, device_id, duration_ns and what a launch needs.

    Grids are recorded as one number of work-items, without axes.
    """
    size, grid = pl.col("Workgroup_Size"), pl.col("Grid_Size")
    return dispatches.select(
        "kernel_id",
        kind=pl.lit("kernel"),
        name="name",
        device_id="device_id",
        grid_x=pl.when((size > 0) & (grid > 0)).then(-(-grid // size)),
        grid_y=pl.lit(1, pl.Int64),
        grid_z=pl.lit(1, pl.Int64),
        block_x=pl.when(size > 0).then(size),
        block_y=pl.lit(1, pl.Int64),
        block_z=pl.lit(1, pl.Int64),
        registers_per_thread=pl.col("Arch_VGPR") + pl.col("Accum_VGPR").fill_null(0),
        static_shared_bytes="LDS_Per_Workgroup",
        duration_ns="duration_ns",
    ).with_columns(occurrence=pl.int_range(pl.len()).over("name", "grid_x", "block_x"))


def make_devices(gpus: pl.Series, machine: Mapping[str, Any]) -> pl.DataFrame:
    """Table `devices`: these GPUs, all of the kind that the machine's description has."""

    def number(name: str, times: float = 1) -> int | None:
        try:
            value = float(machine[name]) * times
        except (KeyError, ValueError, TypeError):
            return None
        return round(value) if 0 < value < INT64_MAX else None

    waves, width = number("max_waves_per_cu"), number("wave_size")
    bandwidth = number("hbm_bw", 1e9)
    clock, channels = number("max_mclk", 1e6), number("num_hbm_channels")
    if bandwidth is None and clock and channels:
        bandwidth = clock * channels * 32  # rocprof-compute: 32 bytes a channel and cycle
    facts: dict[str, Any] = {
        "vendor": "amd",
        "name": machine.get("gpu_model"),
        "sm_count": number("cu_per_gpu"),
        "max_clock_hz": number("max_sclk", 1e6),
        "memory_bandwidth_bytes_per_s": bandwidth,
        "compute_capability": machine.get("gpu_arch"),
        "warp_size": width,
        "max_threads_per_sm": waves * width if waves and width else None,
        "l2_bytes": number("gpu_l2", 1024),
    }
    known = gpus.drop_nulls().unique().sort().to_list() or [0]
    return make_frame("devices", [{"device_id": gpu, **facts} for gpu in known])
