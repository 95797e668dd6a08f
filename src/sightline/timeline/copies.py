"""What a copy or memset is to the program, so that each is one finding's and no two's."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.algebra.intervals import clip_intervals, partition_windows
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.timeline import causes
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run
from sightline.timeline.host_ranges import find_host_ancestor, list_saving_ranges

# Up to here a copy from pageable memory is staged at once and its call returns (CUDA Runtime API,
# "API synchronization behavior": transfers of 64 KB or less); it takes no longer than its launch.
SMALL_BYTES = 65_536
# A recording of fewer operations shows no pattern (ours: one training step launches hundreds).
LEAST_OPERATIONS = 10
CAUSES = (
    causes.UPLOAD,
    causes.DOWNLOAD,
    causes.PAGEABLE,
    causes.SMALL,
    causes.FILL,
    causes.MIGRATION,
    causes.CHECKPOINT,
    causes.OTHER_COPY,
)
# What is told of a copy.
_COPY = (
    *("device_op_id", "rank", "device_id", "stream_id", "kind", "name", "start_ns", "end_ns"),
    *("launch_id", "bytes", "copy_kind", "src_kind", "dst_kind", "address", "migration_cause"),
)
_BY = ["rank", "device_id"]


def list_copy_causes(run: Run) -> pl.Series:
    """The cause that each copy or memset is, of CAUSES; null for other device operations."""
    return run.once(_list_copy_causes)


def select_copies(run: Run, among: Sequence[str]) -> pl.DataFrame:
    """The copies and memsets of some causes, in the window."""
    return select_starting_in(list_copies(run, among), run.ask("windows"))


def list_copies(run: Run, among: Sequence[str]) -> pl.DataFrame:
    """The copies and memsets of some causes."""
    known = [cause for cause in among if cause in CAUSES]
    return run.table("device_ops", _COPY).filter(list_copy_causes(run).is_in(known))


def _list_copy_causes(run: Run) -> pl.Series:
    used = ("kind", "copy_kind", "src_kind", "bytes", "launch_id")
    ops = run.table("device_ops", used)
    # Most operations are kernels: what each copy is costs as much as there are copies.
    rows = ops.get_column("kind").is_in(["memcpy", "memset"]).arg_true()
    copies = ops[rows]
    cause = copies.select(_name_by_kind().alias("cause")).to_series()
    saving = list_saving_ranges(run).get_column("host_op_id")
    if not saving.is_empty():
        saved = find_host_ancestor(run, copies.get_column("launch_id"), saving)
        mine = (copies.get_column("copy_kind") == "DtoH") & saved.is_not_null()
        cause = pl.select(
            pl.when(mine.fill_null(value=False)).then(pl.lit(causes.CHECKPOINT)).otherwise(cause)
        ).to_series()
    nothing = pl.repeat(None, ops.height, dtype=pl.Enum(CAUSES), eager=True)
    return nothing.scatter(rows, cause.cast(pl.Enum(CAUSES)))


def _name_by_kind() -> pl.Expr:
    up, down = pl.col("copy_kind") == "HtoD", pl.col("copy_kind") == "DtoH"
    return (
        pl.when(pl.col("kind") == "memset")
        .then(pl.lit(causes.FILL))
        .when(pl.col("copy_kind").str.starts_with("UVM"))
        .then(pl.lit(causes.MIGRATION))
        .when((up | down) & (pl.col("bytes") <= SMALL_BYTES))
        .then(pl.lit(causes.SMALL))
        .when(up & (pl.col("src_kind") == "pageable"))
        .then(pl.lit(causes.PAGEABLE))
        .when(up)
        .then(pl.lit(causes.UPLOAD))
        .when(down)
        .then(pl.lit(causes.DOWNLOAD))
        .otherwise(pl.lit(causes.OTHER_COPY))
    )


def measure_exposed_copies(run: Run) -> pl.DataFrame:
    """Per rank and device, how long copies of each cause ran, and nothing else."""
    ops = classify_run(run).with_columns(
        class_=pl.when(pl.col("class_") == COPY)
        .then(list_copy_causes(run).cast(pl.String))
        .otherwise("class_")
    )
    windows = run.ask("windows")
    inside = clip_intervals(ops.select(*_BY, "start_ns", "end_ns", "class_"), windows, _BY)
    parts = partition_windows(inside, windows, _BY, (COMPUTE, COMMUNICATION, *CAUSES))
    return parts.select(*_BY, *(pl.col(f"{cause}_ns").alias(cause) for cause in CAUSES))


# Ours: kernels of a hundred launches, since the first call of each takes as long; with the copies
# of a test's arguments there and back twice that.
_LITTLE_KERNELS_NS, _LITTLE_NS = 500_000, 1_000_000
# A first launch takes about as long; and what a program's set-up takes (both ours).
_MOMENT_NS, _FAR_LONGER = 100_000, 100
_FEW_COPIES = 10  # a test that moves its arguments one by one makes tens of them
_ONE_PAUSE = 0.9  # of all that was recorded, between two operations: setting up, and no loop (ours)


def is_too_little(run: Run) -> bool:
    """Whether all that ran is a handful of kernels that take next to no time, and some copies.

    Or kernels of which each ran once: one pass over a problem, and what was sent for it. Copies may
    take longer where one pause is nearly all of the recording. Or up to a hundred of any that are
    over before the program's first call would be.
    """
    used = run.columns("device_ops", ("kind", "start_ns", "end_ns"))
    kernels = int((used.get_column("kind") == "kernel").sum())
    if not kernels or used.height >= _FEW_COPIES * LEAST_OPERATIONS:
        return False
    if kernels >= LEAST_OPERATIONS and not runs_each_once(run):
        return _is_moment(run, used)
    length = pl.col("end_ns") - pl.col("start_ns")
    took = used.group_by(is_kernel=pl.col("kind") == "kernel").agg(ns=length.sum())
    computed = took.filter("is_kernel").get_column("ns").sum()
    little = took.get_column("ns").sum() < _LITTLE_NS
    return computed < _LITTLE_KERNELS_NS and (little or _is_one_pause(used))


def _is_moment(run: Run, ops: pl.DataFrame) -> bool:
    """Whether the device is done in a moment of a program that is known to run for far longer."""
    span = pl.col("end_ns").max() - pl.col("start_ns").min()
    if ops.select(span).item() >= _MOMENT_NS or not run.rows("host_ops"):
        return False
    host = run.columns("host_ops", ("start_ns", "end_ns"))
    return bool(host.select(span).item() >= _FAR_LONGER * _MOMENT_NS)


def _is_one_pause(ops: pl.DataFrame) -> bool:
    """Whether the longest time without any operation is nearly all between the first and last."""
    until = pl.col("end_ns").cum_max().shift(1)
    found = ops.sort("start_ns").select(
        longest=(pl.col("start_ns") - until).max(),
        all=pl.col("end_ns").max() - pl.col("start_ns").min(),
    )
    longest, span = found.row(0)
    return longest is not None and longest >= _ONE_PAUSE * span


def runs_each_once(run: Run) -> bool:
    """Whether no kernel ran a second time."""
    used = run.columns("device_ops", ("kind", "name"))
    names = used.filter(pl.col("kind") == "kernel").get_column("name")
    return names.n_unique() == names.len()


def ran_enough(run: Run) -> bool:
    """Whether the device did anything to judge: a kernel, or ten copies and memsets.

    A program that ended as it began leaves one memset, which is all of its window.
    """
    kinds = run.columns("device_ops", ("kind",)).get_column("kind")
    return kinds.len() >= LEAST_OPERATIONS or not kinds.is_in(["memcpy", "memset"]).all()
