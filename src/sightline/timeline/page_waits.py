"""How long kernels wait for pages of unified memory that they touched on the other side."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.latest import find_latest
from sightline.core.model.run import Run
from sightline.timeline.classes import COMPUTE, list_class

# What a page fault of the GPU takes until its pages are there: 20 to 50 µs (Zheng et al., "Towards
# High Performance Paged Memory for GPUs", HPCA 2016).
FAULT_NS = 50_000
_DEVICE = ["rank", "device_id"]
_SPAN = ["start_ns", "end_ns"]


def list_page_moves(run: Run) -> pl.DataFrame:
    """The pages that came to a device because a kernel touched them: rank, device and times."""
    return _list_faulted(run, "UVM HtoD", [*_DEVICE, *_SPAN])


def _list_faulted(run: Run, copy_kind: str, columns: list[str]) -> pl.DataFrame:
    """The pages that moved one way, and not because the program asked for it."""
    moves = run.table("device_ops", [*columns, "copy_kind", "migration_cause"])
    asked = pl.col("migration_cause").eq_missing("user prefetch")
    return moves.filter(pl.col("copy_kind") == copy_kind, ~asked).select(columns)


def add_fault_waits(run: Run, moves: pl.DataFrame) -> pl.DataFrame:
    """The moves (rank, device, times) that begin up to FAULT_NS earlier, where a kernel waits.

    No wait is longer than a fault takes, and none reaches back behind the move before it or behind
    the kernel that waits.
    """
    in_order = moves.select(*_DEVICE, *_SPAN).sort(*_DEVICE, *_SPAN)
    before = pl.col("end_ns").cum_max().shift(1).over(_DEVICE)
    kernels = list_class(run, COMPUTE, [*_DEVICE, *_SPAN]).sort(*_DEVICE, "start_ns")
    rows = find_latest(in_order, "start_ns", kernels, "start_ns", _DEVICE)
    runs_until = kernels.get_column("end_ns").gather(rows)
    began = kernels.get_column("start_ns").gather(rows)
    wait = pl.max_horizontal(pl.col("start_ns") - FAULT_NS, before, pl.lit(began))
    waits = (pl.lit(runs_until) > pl.col("start_ns")).fill_null(value=False)
    return in_order.with_columns(
        start_ns=pl.when(waits).then(pl.min_horizontal("start_ns", wait)).otherwise("start_ns")
    )


def measure_page_waits(run: Run, kernels: pl.DataFrame) -> pl.Series:
    """How long each kernel (rank, device, times) moves pages or waits for them, ns."""
    moves = list_page_moves(run)
    if moves.is_empty():
        return pl.repeat(0, kernels.height, dtype=pl.Int64, eager=True)
    return measure_cover_between(
        kernels, "start_ns", "end_ns", add_fault_waits(run, moves), _DEVICE
    )


def find_read_back(run: Run, gaps: pl.DataFrame) -> pl.DataFrame:
    """The gaps of unknown cause that end with a page that the host faulted in: it is reading.

    `gaps` has `cause` and `after_id`, the operation that ends each (`sightline stats idle_rules`).
    """
    ids = _list_faulted(run, "UVM DtoH", ["device_op_id"]).get_column("device_op_id").implode()
    return gaps.filter(pl.col("after_id").is_in(ids) & (pl.col("cause") == "unknown"))
