"""What an operation is for: the one place where names decide a class."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.algebra.lookup import Texts, keep_rows
from sightline.core.model.run import Run
from sightline.timeline.communication_names import PATTERN

COMPUTE, COMMUNICATION, COPY, UNKNOWN = "compute", "exposed_comm", "exposed_copy", "unknown"
CLASSES = (COMPUTE, COMMUNICATION, COPY, UNKNOWN)  # in order of priority

# Kernels with which a runtime lets a stream wait for a value in memory, and writes one: ROCm's
# compute language runtime (rocclr/device/blitcl.cpp). Entries of Level Zero's command lists that
# wait, or let others go on (oneapi-src/level-zero, ze_api.h).
WAITS = (
    r"^__amd_rocclr_streamOps(?:Wait|Write)"
    r"|^zeCommandListAppend(?:Barrier|MemoryRangesBarrier|EventReset|WaitOnEvents|SignalEvent)"
)
# Kernels that copy and fill where the runtime does not use the DMA engines (same file).
BLITS = r"^__amd_rocclr_(?:copy|fill)\w+"


_USED = (
    *("device_op_id", "rank", "recording_id", "device_id", "stream_id", "kind", "name"),
    *("start_ns", "end_ns", "launch_id", "bytes", "grid_x", "block_x"),
)


def classify_ops(device_ops: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Device operations with the column `class_`.

    Copies and memsets by kind, or by the name of a runtime's kernel for them; a kernel is
    communication by its name, or because the recording carries a collective's metadata for it; what
    only waits, or nobody knows, is unknown; all else, whole graph launches too, is compute.
    """
    known = collectives.get_column("device_op_id").unique()
    names = Texts(device_ops.get_column("name"))
    communicates = names.match(PATTERN)
    if known.len():
        communicates |= device_ops.get_column("device_op_id").is_in(known.implode())
    return device_ops.with_columns(
        class_=pl.when(pl.col("kind").is_in(["memcpy", "memset"]) | names.match(BLITS))
        .then(pl.lit(COPY))
        .when(communicates)
        .then(pl.lit(COMMUNICATION))
        .when((pl.col("kind") == "other") | names.match(WAITS))
        .then(pl.lit(UNKNOWN))
        .otherwise(pl.lit(COMPUTE))
    )


def classify_run(run: Run) -> pl.DataFrame:
    """All device operations of a run: what places them, and the column `class_`."""
    return run.once(_classify_run)


def list_class(run: Run, class_: str, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of all device operations of one class."""
    ops = classify_run(run)
    return keep_rows(ops[list(columns)], ops.get_column("class_") == class_)


def _classify_run(run: Run) -> pl.DataFrame:
    return classify_ops(run.table("device_ops", _USED), run.table("collectives"))


def is_communication(name: pl.Expr) -> pl.Expr:
    """Whether a kernel's name is that of a communication library."""
    return name.str.contains(PATTERN)
