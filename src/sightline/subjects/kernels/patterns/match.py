"""The patterns that a run matches: the kernels that each means, and what of their time stays."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns
from sightline.diagnosis.build import NOTABLE_PCT
from sightline.replay.gains import sum_windows
from sightline.subjects.kernels.keeping import add_factors
from sightline.subjects.kernels.patterns.calls import Calls, list_calls
from sightline.subjects.kernels.patterns.declare import Pattern
from sightline.subjects.kernels.patterns.table import PATTERNS
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_work

# A backward pass reads the gradient beside what the forward pass read, and writes another: three
# tensors where a pass of one input has two. Of attention it does five products where the forward
# pass does two (Dao, FlashAttention-2, 2023, 4.1).
BACKWARD_BYTES, BACKWARD_FLOP = 1.5, 2.5
_SHOWN = 3


def find_patterns(run: Run, rule: Rule) -> Iterator[Finding]:
    """A finding for each pattern of the rule that is worth a word."""
    for pattern, matched in list_patterns(run):
        if pattern.rule == rule.name:
            found = find_shorter_kernels(
                run,
                rule,
                list_work(run).join(matched, on="device_op_id", maintain_order="left"),
                f"{pattern.cause[0].upper()}{pattern.cause[1:]}: {{share}} of the window is in "
                "kernels and copies that could go.",
                cause=pattern.cause,
                fix=pattern.fix,
                sources=(pattern.source,),
                extra=_describe_calls(run, matched),
                confidence=pattern.confidence,
                is_bound=True,
                with_host=pattern.with_host,
                host=_list_ranges(run, pattern),
                also_launch_bound=pattern.with_host,
                title=pattern.title,
                where={"pattern": pattern.name},
            )
            if found:
                yield found


def _list_ranges(run: Run, pattern: Pattern) -> pl.DataFrame | None:
    calls = list_calls(run)
    return None if pattern.ranges is None or calls is None else pattern.ranges(calls)


def list_patterns(run: Run) -> list[tuple[Pattern, pl.DataFrame]]:
    """The patterns that are worth a word, with device_op_id, call and factor of their kernels.

    A kernel is of one pattern, the first in the table's order.
    """
    return run.once(_list_patterns)


def list_matched(run: Run, rule: Rule) -> pl.DataFrame:
    """What the rule's patterns mean: rows of `list_work` with `factor`."""
    of_rule = [matched for pattern, matched in list_patterns(run) if pattern.rule == rule.name]
    none = {"device_op_id": pl.Int64, "factor": pl.Float64}
    each = [matched.select(*none) for matched in of_rule] or [pl.DataFrame(schema=none)]
    return list_work(run).join(pl.concat(each), on="device_op_id", maintain_order="left")


def list_claimed(run: Run) -> pl.Series:
    """The device operations that a pattern speaks for, so that no wider rule has to."""
    claimed = [matched.get_column("device_op_id") for _, matched in list_patterns(run)]
    return pl.concat(claimed) if claimed else pl.Series([], dtype=pl.Int64)


def _list_patterns(run: Run) -> list[tuple[Pattern, pl.DataFrame]]:
    calls = list_calls(run)
    found: list[tuple[Pattern, pl.DataFrame]] = []
    if calls is None:
        return found
    windows, operations = sum_windows(run), list_work(run).height
    left = calls.kernels
    for pattern in PATTERNS:
        matches = pattern.find(calls)
        if matches.is_empty():
            continue
        kernels = _find_kernels(calls, left, matches, with_backward=pattern.with_backward)
        kernels = _keep_least(kernels, calls.bytes_per_s)
        if _is_notable(kernels, pattern, windows, operations):
            found.append((pattern, kernels.select("device_op_id", "call", "factor")))
            left = left.join(kernels, on="device_op_id", how="anti")
    return found


def _is_notable(kernels: pl.DataFrame, pattern: Pattern, windows: int, operations: int) -> bool:
    """Whether enough time of kernels goes, or enough of them where the host's time goes, too."""
    lost = kernels.select(((1 - pl.col("factor")) * pl.col("length")).sum()).item()
    gone = kernels.filter(pl.col("factor") == 0).height if pattern.with_host else 0
    return bool(max(lost / windows, gone / max(operations, 1)) >= NOTABLE_PCT / 100)


def _find_kernels(
    calls: Calls, kernels: pl.DataFrame, matches: pl.DataFrame, *, with_backward: bool
) -> pl.DataFrame:
    """The kernels of the matches' calls, and of their backward nodes as matches of their own."""
    forward = kernels.join(matches, on="call")
    if not with_backward:
        return forward
    behind = calls.table.select("call", "of_call").join(matches, left_on="of_call", right_on="call")
    # A call that is in a match itself is no backward of another one.
    behind = behind.join(matches, on="call", how="anti").select(
        "call",
        match=-1 - pl.col("match"),
        keep_bytes=BACKWARD_BYTES * pl.col("keep_bytes"),
        keep_ns=BACKWARD_FLOP * pl.col("keep_ns"),
    )
    return pl.concat([forward, kernels.join(behind, on="call").select(forward.columns)])


def _keep_least(kernels: pl.DataFrame, bytes_per_s: float | None) -> pl.DataFrame:
    """With `factor`: what each match keeps fills its longest kernels, and the others are gone.

    Where the memory's rate is not known, what still has to move keeps everything.
    """
    moved = 1e9 * pl.col("keep_bytes") / bytes_per_s if bytes_per_s else pl.lit(0.0)
    unknown = (pl.col("keep_bytes") > 0) & pl.lit(bytes_per_s is None)
    kept = kernels.with_columns(kept_ns=moved + pl.col("keep_ns"))
    factor = pl.when(unknown).then(1.0).otherwise("factor")
    return add_factors(kept, "match").with_columns(factor=factor)


def _describe_calls(run: Run, matched: pl.DataFrame) -> list[str]:
    """'12 × aten::_softmax [[4,16,4096,4096],[],[]], 40.74 ms', those that take longest."""
    host = run.columns("host_ops", ["host_op_id", "name", "input_shapes"])
    groups = (
        list_work(run)
        .join(matched, on="device_op_id")
        .join(host, left_on="call", right_on="host_op_id", suffix="_of_call")
        .group_by(pl.col("name_of_call").cast(pl.String), pl.col("input_shapes").cast(pl.String))
        .agg(n=pl.col("call").n_unique(), ns=pl.col("length").sum())
        .sort("ns", "name_of_call", "input_shapes", descending=[True, False, False])
    )
    return [
        f"{format_count(n)} × {name} {shapes or ''}".rstrip() + f", {format_ns(ns)}"
        for name, shapes, n, ns in groups.head(_SHOWN).rows()
    ]
