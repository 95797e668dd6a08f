"""The framework's operator that most of a cost lies in, and what is known of such operators."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.timeline.host_ranges import find_host_ancestor

# Operators that wait for the device by what they are: what to do instead, and who says so.
# PyTorch's own sources and documentation; the first pattern that is in the name.
_WAITING = (
    ("aten::_coalesce", "coalesce the sparse tensor once, where it is built (x = x.coalesce()), or "
     "keep it in CSR: each product with an uncoalesced tensor sorts the indices again"),
    ("aten::nonzero", "avoid shapes that depend on values (torch.where with three arguments, "
     "masks that are multiplied)"),
    ("aten::masked_select", "avoid shapes that depend on values: multiply by the mask instead"),
    ("aten::_unique", "avoid shapes that depend on values, or do it once before the loop"),
    ("aten::repeat_interleave", "give repeat_interleave its output_size"),
    ("aten::_local_scalar_dense", "read the value later, or once every several steps"),
    ("aten::is_nonzero", "keep the test on the GPU (torch.where) instead of an if"),
    ("aten::equal", "keep the comparison on the GPU, or compare less often"),
)  # fmt: skip


class Operator(NamedTuple):
    """An operator that more than half of a cost lies in: how often, and how much of it, %."""

    name: str
    calls: int
    pct: float

    @property
    def hint(self) -> str | None:
        """What to do instead, where that is known of such operators."""
        return next((hint for name, hint in _WAITING if name in self.name), None)

    def describe(self) -> str:
        """'98.1 % of it lies in 5 × aten::_coalesce'."""
        return f"{format_pct(self.pct)} of it lies in  {format_count(self.calls)} × {self.name}"


def find_main_operator(run: Run, gaps: pl.DataFrame) -> Operator | None:
    """The operator, the innermost that does, in which more than half of this time lies.

    `gaps` have `duration_ns`, and `host_op_id` or `launch_id` or both (rows of idle_rules have):
    where the thread was in nothing, the launch that ends the gap says whose it is, if its operator
    was running for half of the gap: what a thread is in when a long gap ends did not fill it.
    """
    host = run.table("host_ops", ["host_op_id", "parent_id", "layer", "name", "start_ns", "end_ns"])
    ops = host.filter(pl.col("layer") == "op").get_column("host_op_id")
    whole = gaps.get_column("duration_ns").sum()
    if ops.is_empty() or gaps.is_empty() or not whole:
        return None
    known = [c for c in ("host_op_id", "launch_id") if c in gaps.columns]
    at = find_host_ancestor(run, gaps.select(pl.coalesce(known)).to_series(), ops)
    ns = gaps.get_column("duration_ns")
    if "host_op_id" in known and "launch_id" in known:
        at = _keep_running(host, at, gaps)
    while at.null_count() < at.len():
        rows = find_rows(host.get_column("host_op_id"), at)
        inside = pl.DataFrame({"at": at, "name": host.get_column("name").gather(rows), "ns": ns})
        each = inside.drop_nulls("at").group_by("name")
        most = each.agg(pl.col("ns").sum(), n=pl.col("at").n_unique()).filter(
            2 * pl.col("ns") > whole
        )
        if most.height:
            name, taken, count = most.row(0)
            return Operator(name, count, 100 * taken / whole)
        at = find_host_ancestor(run, host.get_column("parent_id").gather(rows), ops)
    return None


def _keep_running(host: pl.DataFrame, at: pl.Series, gaps: pl.DataFrame) -> pl.Series:
    """The operators, null where only a launch tells of one, and it ran for less than half."""
    rows = find_rows(host.get_column("host_op_id"), at)
    begun, ended = (host.get_column(name).gather(rows) for name in ("start_ns", "end_ns"))
    both = pl.min_horizontal("end_ns", pl.lit(ended)) - pl.max_horizontal("start_ns", pl.lit(begun))
    fills = 2 * both >= pl.col("duration_ns")
    keep = pl.col("host_op_id").is_not_null() | fills.fill_null(value=False)
    return gaps.select(pl.when(keep).then(pl.lit(at))).to_series()
