"""Every kernel, copy and memset in order of start: nsys calls it cuda_gpu_trace."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.nsys.analyses._shared import (
    MB,
    NAMES,
    NVTX_NAME,
    add_kernel_name,
    declare_name,
    list_device_ops,
    move_to_session_time,
    name_memory_kind,
    name_operation,
)

_SHAPE = {
    "GrdX": "grid_x",
    "GrdY": "grid_y",
    "GrdZ": "grid_z",
    "BlkX": "block_x",
    "BlkY": "block_y",
    "BlkZ": "block_z",
}

ANALYSIS = Analysis(
    "cuda_gpu_trace",
    "What did the GPU do, one operation after the other? (as nsys stats)",
    (
        number("Start (ns)", "start, since the session began", "ns"),
        number("Duration (ns)", "duration", "ns"),
        number("CorrId", "number that ties it to its launch call"),
        *(number(name, "grid or block of a kernel") for name in _SHAPE),
        number("Reg/Trd", "registers of a thread"),
        real("StcSMem (MB)", "static shared memory of a block", "MB"),
        real("DymSMem (MB)", "dynamic shared memory of a block", "MB"),
        real("Bytes (MB)", "size of a copy or memset", "MB"),
        real("Throughput (MB/s)", "its rate", "MB/s"),
        text("SrcMemKd", "source memory of a copy, or memory of a memset"),
        text("DstMemKd", "destination memory of a copy"),
        text("Device", "name and number of the device"),
        number("Ctx", "CUDA context"),
        number("GreenCtx", "green context"),
        number("Strm", "stream"),
        declare_name("Name", "kernel, direction of the copy, or memset"),
    ),
    needs=("device_ops",),
    params=(NAMES, NVTX_NAME),
    notes=(
        "nsys computes Throughput with a whole number of operations per second and so prints up "
        "to 0.1 % less, and 0 for copies of more than a second; here it is size over duration.",
    ),
)


def run(run: Run, *, names: str = "demangled", nvtx_name: int = 0) -> pl.DataFrame:
    """One row per operation, in order of start."""
    devices = run.table("devices").select("rank", "device_id", device_name="name")
    ops = move_to_session_time(
        list_device_ops(run, "kernel", "memcpy", "memset"), run, "start_ns"
    ).join(
        devices.unique(["rank", "device_id"]),
        on=["rank", "device_id"],
        how="left",
        maintain_order="left",
    )
    ops = add_kernel_name(run, ops, names, nvtx_name)
    is_kernel, is_fill = pl.col("kind") == "kernel", pl.col("kind") == "memset"
    return ops.sort("start_ns", "device_op_id").select(
        pl.col("start_ns").alias("Start (ns)"),
        pl.col("ns").alias("Duration (ns)"),
        pl.col("correlation_id").alias("CorrId"),
        *(pl.col(column).alias(name) for name, column in _SHAPE.items()),
        pl.col("registers_per_thread").alias("Reg/Trd"),
        (pl.col("static_shared_bytes") / MB).alias("StcSMem (MB)"),
        (pl.col("dynamic_shared_bytes") / MB).alias("DymSMem (MB)"),
        (pl.col("bytes") / MB).alias("Bytes (MB)"),
        # bytes per ns are 10⁹ bytes per second
        pl.when(pl.col("ns") > 0)
        .then(pl.col("bytes") / pl.col("ns") * 1000)
        .alias("Throughput (MB/s)"),
        pl.when(is_fill)
        .then(name_memory_kind("dst_kind"))
        .otherwise(name_memory_kind("src_kind"))
        .alias("SrcMemKd"),
        pl.when(~is_fill).then(name_memory_kind("dst_kind")).alias("DstMemKd"),
        pl.format("{} ({})", pl.col("device_name").fill_null("GPU"), "device_id").alias("Device"),
        pl.col("context_id").alias("Ctx"),
        pl.col("green_context_id").alias("GreenCtx"),
        pl.col("stream_id").alias("Strm"),
        pl.when(is_kernel).then(pl.col("kernel")).otherwise(name_operation()).alias("Name"),
    )
