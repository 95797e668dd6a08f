"""What the rules about operators share: the kernels of calls, and what is left at their roof."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import find_rows, keep_rows
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.roofline.operator_roofs import list_operator_kernels, place_operators
from sightline.roofline.operators.arguments import ELEMENT_BYTES
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

_SHOWN = 3


def find_slow_products(
    run: Run, rule: Rule, calls: pl.DataFrame, summary: str, *, cause: str, fix: str
) -> Iterator[Finding]:
    """At most one finding: these matrix products could run at their roof.

    `calls` are rows of `place_operators`; `summary` may use {share}.
    """
    found = find_shorter_kernels(
        run,
        rule,
        _list_kernels_at_roof(run, calls),
        summary,
        cause=cause,
        fix=fix,
        verify="sightline stats operator_efficiency AFTER: of_roof_pct of these products",
        sources=("NVIDIA: Matrix Multiplication Background User's Guide",),
        extra=_describe_products(calls),
    )
    if found:
        yield found


def _list_kernels_at_roof(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    """The kernels of these calls as `list_kernels` has them, with `factor`: what the roof leaves.

    `calls` are rows of `place_operators`.
    """
    left = calls.select(
        owner="host_op_id",
        factor=(pl.col("reach_ns") / pl.col("kernel_ns")).clip(upper_bound=1.0),
    )
    return list_kernels_of(run, left)


def list_kernels_of(run: Run, left: pl.DataFrame) -> pl.DataFrame:
    """The kernels of these calls as `list_kernels` has them, with the `factor` of their `owner`."""
    kernels = add_owners(run, list_kernels(run))
    rows = find_rows(left.get_column("owner"), kernels.get_column("owner"))
    known = kernels.drop("owner").with_columns(left.get_column("factor").gather(rows))
    return keep_rows(known, rows.is_not_null())


def add_owners(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `owner`, the call of a known operator that launched each, or null."""
    if not run.rows("host_ops"):
        return kernels.with_columns(owner=pl.lit(None, pl.Int64))
    owned = list_operator_kernels(run)
    rows = find_rows(owned.get_column("device_op_id"), kernels.get_column("device_op_id"))
    return kernels.with_columns(owned.get_column("owner").gather(rows))


def select_calls(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """The calls of known operators that launched these kernels, rows of `place_operators`."""
    meant = add_owners(run, kernels).get_column("owner").drop_nulls().unique()
    calls = place_operators(run)
    return calls.filter(pl.col("host_op_id").is_in(meant.implode()))


def add_results(calls: pl.DataFrame) -> pl.DataFrame:
    """`host_op_id`, `moved_bytes` and `result_bytes` of calls that pass over their tensors once.

    `calls` are rows of `place_operators`, whose `dims` say how many elements the result has.
    """
    elements = pl.col("dims").str.extract(r"elements=(\d+)").cast(pl.Int64)
    size = pl.col("dtype").replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    return calls.select("host_op_id", "moved_bytes", result_bytes=elements * size)


def _describe_products(calls: pl.DataFrame) -> list[str]:
    """'24 × aten::addmm m=8 n=4096 k=4096, 1.2 ms at 31 % of its roof', those that take longest."""
    groups = (
        calls.group_by("name", "dims")
        .agg(n=pl.len(), ns=pl.col("kernel_ns").sum(), roof=pl.col("roof_ns").sum())
        .sort("ns", "name", "dims", descending=[True, False, False])
    )
    return [
        f"{format_count(n)} × {name} {dims}, {format_ns(ns)} at "
        f"{format_pct(100 * roof / max(ns, 1))} of {'its' if n == 1 else 'their'} roof"
        for name, dims, n, ns, roof in groups.head(_SHOWN).rows()
    ]
