"""How long disks took to serve requests."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.model.columns import RANK, duration, number, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.system.analyses._shared import (
    LENGTHS,
    describe_thread,
    find_longest,
    name_threads,
    sum_lengths,
)

# Of a sector of the block layer (include/linux/types.h: SECTOR_SIZE).
_SECTOR_BYTES = 512
# MINORBITS of include/linux/kdev_t.h: a device's number is major << 20 | minor.
_MINOR_BITS = 20

ANALYSIS = Analysis(
    "disk_times",
    "How long did disks take to serve requests, and for whom?",
    (
        RANK,
        text("disk", "major:minor number of the disk", required=True),
        text("operation", "read, write, discard or flush, where known"),
        *LENGTHS,
        duration("busy_ns", "time with at least one request of this kind"),
        size("transferred_bytes", "read or written"),
        number("threads", "threads on whose CPU requests were issued"),
        text("most_by", "the one with most of that time"),
    ),
    needs=("disk_requests",),
    notes=(
        "From the driver's start of a request to its end: time in the queue before is not in it.",
        "Writes are mostly issued by threads of the kernel for others.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per disk and operation, the most time first."""
    number_ = pl.col("device")
    requests = run.table("disk_requests").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        disk=pl.coalesce(
            pl.concat_str(
                (number_ // 2**_MINOR_BITS).cast(pl.String),
                pl.lit(":"),
                (number_ % 2**_MINOR_BITS).cast(pl.String),
            ),
            pl.lit("unknown"),
        ),
        operation=pl.col("operation").cast(pl.String),
    )
    requests = name_threads(requests, run, "tid", "thread_name").with_columns(
        most_by=pl.when(pl.col("tid") > 0).then(describe_thread("tid", "thread_name"))
    )
    by = ["rank", "disk", "operation"]
    found = requests.group_by(by).agg(
        *sum_lengths(),
        transferred_bytes=pl.col("sectors").sum() * _SECTOR_BYTES,
        threads=pl.col("tid").filter(pl.col("tid") > 0).n_unique().cast(pl.Int64),
    )
    busy = measure_cover(requests, by).rename({"covered_ns": "busy_ns"})
    for frame in (busy, find_longest(requests, by, "most_by")):
        found = found.join(frame, on=by, how="left", nulls_equal=True, maintain_order="left")
    order = found.sort(by).sort("total_ns", descending=True, maintain_order=True)
    return order.select(column.name for column in ANALYSIS.columns)
