"""How long kernels wait for pages of unified memory that they touched on the other side."""

from __future__ import annotations

from dataclasses import dataclass

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
    used = dict.fromkeys([*columns, "copy_kind", "migration_cause"])
    moves = run.table("device_ops", list(used))
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


@dataclass(frozen=True)
class HostPass:
    """What the host does with unified memory that comes back to it page by page.

    `gaps` are those of the device meanwhile, `idle_ns` in all, `moves` the ids of the pages' moves,
    `faults_ns` the most that their faults take; `is_last` where no kernel runs behind them.
    """

    gaps: pl.DataFrame
    idle_ns: int
    moves: pl.Series
    faults_ns: int
    is_last: bool

    @property
    def is_own_work(self) -> bool:
        """Whether most of it is the host's own work, and not the wait for pages."""
        return 2 * self.faults_ns < self.idle_ns


def find_host_pass(run: Run) -> HostPass | None:
    """The host's work on pages that it faults in, in the gaps of `list_read_back`; None: none.

    A page that comes along with one that faulted (speculative prefetch) is not a fault of its own.
    """
    return run.once(_find_host_pass)


def _find_host_pass(run: Run) -> HostPass | None:
    reading = list_read_back(run)
    if reading.is_empty():
        return None
    moves = _list_faulted(run, "UVM DtoH", ["device_op_id", *_DEVICE, *_SPAN, "migration_cause"])
    # What comes along with the page that ends a gap follows it without one.
    first = reading.group_by(_DEVICE).agg(first_ns=pl.col("end_ns").min())
    moves = moves.join(first, on=_DEVICE).filter(pl.col("start_ns") >= pl.col("first_ns"))
    faults = moves.filter(pl.col("migration_cause").ne_missing("speculative prefetch")).height
    last = list_class(run, COMPUTE, ["start_ns"]).get_column("start_ns").max()
    return HostPass(
        gaps=reading,
        idle_ns=int(reading.get_column("duration_ns").sum()),
        moves=moves.get_column("device_op_id"),
        faults_ns=faults * FAULT_NS,
        is_last=last is not None and bool((reading.get_column("start_ns") > last).all()),
    )


def list_read_back(run: Run) -> pl.DataFrame:
    """The gaps of unknown cause that end with a page that the host faulted in: it is reading.

    Rows of `idle_rules`.
    """
    return run.once(_list_read_back)


def _list_read_back(run: Run) -> pl.DataFrame:
    gaps = run.ask("idle_rules")
    ids = _list_faulted(run, "UVM DtoH", ["device_op_id"]).get_column("device_op_id").implode()
    return gaps.filter(pl.col("after_id").is_in(ids) & (pl.col("cause") == "unknown"))
