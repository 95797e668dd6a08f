"""What a device can do at once: the floor under every replay.

The dependency graph says what waits for what, and nothing of room: without an edge two kernels that
each fill the device would run beside each other. A kernel takes the part of the multiprocessors
that its launch shape fills, a copy its direction's engine; what was measured beside each other in
the recording sets the rate. No window gets shorter than the work that is left on one of these.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.lookup import find_rows, number_groups, select_varying
from sightline.core.model.run import Run
from sightline.replay.graph import list_nodes
from sightline.replay.replay import is_op
from sightline.timeline.classes import COMPUTE, COPY, classify_run

# Where the recording does not say what a multiprocessor holds: NVIDIA's of compute capability 8.0
# and 9.0, and AMD's compute units (hardware.tsv; "CUDA C++ Programming Guide", technical
# specifications per compute capability): the largest of them, so kernels get more room, not less.
MOST_THREADS, MOST_REGISTERS, MOST_BLOCKS, WARP = 2_048, 65_536, 32, 32
# Where so much of the work was beside other work, the recording shows that there is room (ours).
_BESIDE = 0.9
_DEVICE = ["rank", "device_id"]
_SHAPE = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes"),
)


def measure_least(run: Run, changed: pl.DataFrame, inside: pl.Series) -> int:
    """How long the busiest resource of a device needs for what is left of its work, ns.

    `changed` are the run's nodes with their new lengths, `inside` which of them count.
    """
    demands = run.once(_list_demands)
    left = demands.select(
        "resource", ns=pl.col("weight") * pl.lit(changed["end_ns"] - changed["start_ns"])
    )
    sums = (
        left.filter(inside & left["resource"].is_not_null())
        .group_by("resource")
        .agg(pl.col("ns").sum())
    )
    return int(sums.get_column("ns").max() or 0)  # type: ignore[arg-type]


def list_shares(ops: pl.DataFrame, devices: pl.DataFrame) -> pl.Series:
    """What part of its device each kernel fills while it runs, above 0 to 1; 1 if unknown.

    `ops` hold rank, device_id and the columns of a launch's shape; `devices` are the run's.
    """
    kind_of, kinds = number_groups(ops, [*_DEVICE, *_SHAPE])
    known = kinds.join(
        devices.select(
            *_DEVICE, "sm_count", "max_threads_per_sm", "registers_per_sm", "shared_bytes_per_sm"
        ),
        on=_DEVICE,
        how="left",
        maintain_order="left",
    )
    threads = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    threads = ((threads + WARP - 1) // WARP) * WARP
    shared = pl.sum_horizontal("static_shared_bytes", "dynamic_shared_bytes")
    registers = pl.col("registers_per_thread") * threads
    fit = pl.min_horizontal(
        pl.lit(MOST_BLOCKS),
        pl.col("max_threads_per_sm").fill_null(MOST_THREADS) // threads,
        pl.when(registers > 0).then(
            pl.col("registers_per_sm").fill_null(MOST_REGISTERS) // registers
        ),
        pl.when(shared > 0).then(pl.col("shared_bytes_per_sm") // shared),
    )
    blocks = pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")
    share = blocks / (pl.col("sm_count") * pl.max_horizontal(fit, pl.lit(1)))
    shares = known.select(share.clip(0.0, 1.0).fill_null(1.0).fill_nan(1.0)).to_series()
    return shares.gather(kind_of)


def _list_demands(run: Run) -> pl.DataFrame:
    """For each node the resource that it holds, and how much of it: `weight` times its length.

    Without a resource are calls, communication (which mostly waits) and what nobody knows.
    """
    ops = run.table(
        "device_ops",
        ["device_op_id", *_DEVICE, "stream_id", "copy_kind", "start_ns", "end_ns", *_SHAPE],
    ).with_columns(of=classify_run(run).get_column("class_"))
    is_kernel = pl.col("of") == COMPUTE
    resource = (
        pl.when(is_kernel)
        .then(pl.lit("kernels"))
        .when(pl.col("of") == COPY)
        .then(pl.col("copy_kind").fill_null("copies"))
    )
    share = pl.when(is_kernel).then(pl.lit(list_shares(ops, run.table("devices")))).otherwise(1.0)
    ops = ops.with_columns(resource=resource, share=share).filter(pl.col("resource").is_not_null())
    by = [*_DEVICE, "resource"]
    work = ((pl.col("end_ns") - pl.col("start_ns")) * pl.col("share")).sum()
    # Two that ran beside each other took so much less than one after the other; where much did,
    # the streams that they were on may run beside each other all the time.
    streams = pl.col("stream_id").n_unique()
    rate = (pl.col("covered_ns") / pl.col("work")).clip(upper_bound=1.0).fill_nan(1.0)  # no work
    rates = (
        measure_cover(ops, by)
        .join(ops.group_by(by).agg(work=work, streams=streams), on=by)
        .with_columns(rate=pl.when(rate < _BESIDE).then(1 / pl.col("streams")).otherwise(rate))
        .with_row_index("number")
    )
    on = select_varying(by, ops, rates)
    rates = rates.drop(c for c in by if c not in on)
    placed = ops.join(rates, on=on, how="left", maintain_order="left").select(
        "device_op_id", resource="number", weight=pl.col("share") * pl.col("rate")
    )
    nodes = list_nodes(run)
    rows = find_rows(placed.get_column("device_op_id"), nodes.get_column("ref_id"))
    rows = pl.select(pl.when(is_op(nodes)).then(rows)).to_series()
    return placed.select(pl.col("resource").gather(rows), pl.col("weight").gather(rows))
