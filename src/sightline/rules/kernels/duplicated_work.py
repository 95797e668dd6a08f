"""The same operator runs twice in a row on inputs of the same shape.

Symptom
    Two calls of one operator with equal shapes right behind each other, launching equal kernels.

Why it hurts
    If the inputs are the same too, the second result is the first one, and its time is wasted.

Evidence
    Operators of one thread that follow each other with nothing between, of equal name, input shapes
    and types, whose kernels are equal too. No recording holds which tensors they read, only their
    shapes: so the rule never speaks. It abstains where such pairs take enough time to be worth a
    look, and says what to record.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Record tensor ids (torch.profiler.ExecutionTraceObserver) and compare the inputs; then keep the
    first result, or move what does not change out of the loop.

False positives
    Equal layers on different data, which is why nothing is claimed.

References
    PyTorch documentation, torch.profiler.ExecutionTraceObserver (tensor ids of inputs).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.algebra.lookup import row_of
from sightline.algebra.scalars import total
from sightline.algebra.trees import nearest_ancestor
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import NOTABLE_PCT, abstain
from sightline.rules.kernels._shared import kernels_of, some_named
from sightline.timeline.gains import window_ns
from sightline.units import format_count, format_pct

RULE = Rule("duplicated-work", "The same work is done twice")


def check(run: Run) -> Iterator[Finding]:
    """One abstention, where equal operators follow each other for long enough."""
    if not run.rows("device_ops") or not run.rows("host_ops") or not some_named(run, "."):
        return
    host = run.table("host_ops")
    if host.get_column("input_shapes").null_count() == host.height:
        return
    again = _again(host)
    # No kernel is looked for before there is an operator that could have launched it.
    if again.is_empty():
        return
    kernels = kernels_of(run)
    owner = nearest_ancestor(host, kernels.get_column("launch_id"), again.get_column("host_op_id"))
    before = again.get_column("before").gather(row_of(again.get_column("host_op_id"), owner))
    mine = kernels.with_columns(owner=owner, before=before).drop_nulls("owner")
    if 100 * total(mine, "length") < NOTABLE_PCT * window_ns(run):
        return
    earlier = nearest_ancestor(
        host, kernels.get_column("launch_id"), mine.get_column("before").unique().sort()
    )
    firsts = kernels.with_columns(before=earlier).drop_nulls("before")
    same = mine.join(firsts.select("before", "name").unique(), on=["before", "name"], how="semi")
    pct = 100 * total(same, "length") / window_ns(run)
    if pct >= NOTABLE_PCT:
        yield abstain(
            RULE,
            f"{format_count(same.get_column('owner').n_unique())} operators repeat the one before "
            f"them, shapes and kernels alike ({format_pct(pct)} of the window); whether on the "
            "same data is not recorded: torch.profiler.ExecutionTraceObserver has the tensors' ids",
        )


def _again(host: pl.DataFrame) -> pl.DataFrame:
    """Operators equal to the one right before them, in order of id: with `before`, that one."""
    ids = host.get_column("host_op_id")
    is_op = (host.get_column("layer") == "op") & host.get_column("input_shapes").is_not_null()
    first = is_op.arg_true().cast(pl.Int64)
    # Ids are preorder: what follows a range's subtree is its next sibling, if it has its parent.
    second = row_of(ids, host.get_column("subtree_end_id").gather(first))
    pairs = pl.DataFrame({"first": first, "second": second}).drop_nulls()
    # Names first: they leave few pairs to be compared by the rest.
    for column in ("name", "parent_id", "layer", "input_shapes", "input_types", "recording_id"):
        of = host.get_column(column)
        equal = of.gather(pairs.get_column("first")).eq_missing(
            of.gather(pairs.get_column("second"))
        )
        pairs = pairs.filter(equal)
    return pairs.select(
        before=ids.gather(pairs.get_column("first")),
        host_op_id=ids.gather(pairs.get_column("second")),
    )
