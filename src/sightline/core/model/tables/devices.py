"""GPUs and other accelerators."""

import polars as pl

from sightline.core.model.columns import RANK, RECORDING, Column, Table, number, real, size, text

TABLE = Table(
    "devices",
    "a GPU or accelerator that a recording knows of",
    (
        RANK,
        RECORDING,
        Column("device_id", pl.Int64, "the recording's number of the device", required=True),
        text("vendor", "nvidia, amd, intel, google, huawei, habana or meta"),
        text("name", "product name"),
        text("uuid", "vendor's unique id; only kept when asked for"),
        number("sm_count", "streaming multiprocessors (NVIDIA) or compute units (AMD)"),
        number("max_clock_hz", "highest SM clock", "Hz"),
        size("memory_bytes", "device memory"),
        number("memory_bandwidth_bytes_per_s", "device memory bandwidth", "bytes/s"),
        text("compute_capability", "as 9.0"),
        number("warp_size", "threads in a warp or wave"),
        number("max_threads_per_sm", "resident threads that one SM can hold"),
        number("registers_per_sm", "32-bit registers of one SM"),
        size("shared_bytes_per_sm", "shared memory of one SM"),
        size("l2_bytes", "second-level cache"),
        number(
            "copy_engines", "copies that run at once beside kernels; 1: one direction at a time"
        ),
        real("clock_ratio", "measured over highest SM clock, 0 to 1"),
    ),
)
