"""The critical path as plain data: its length, what it is made of, and its pieces."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.algebra.lookup import Texts, find_rows
from sightline.core.algebra.trees import find_parents
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import IN_API
from sightline.timeline.idle_names import find_covering
from sightline.timeline.segments import select_repeating

BETWEEN_CALLS = "CPU code between calls"
_THREAD = ["rank", "pid", "tid"]


def sum_pieces(pieces: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """How many pieces each group has, and their time: `by`, pieces, total_ns, the largest first."""
    return (
        pieces.group_by(by)
        .agg(pieces=pl.len(), total_ns=pl.col("duration_ns").sum())
        .sort("total_ns", *by, descending=[True] + [False] * len(by))
    )


def name_pieces(run: Run, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces, those between two calls named by the range that the thread was in, if any.

    The call that ends such a piece is not what took the time.
    """
    columns = [*_THREAD, "host_op_id", "parent_id", "layer", "name", "start_ns", "end_ns"]
    host = run.table("host_ops", columns)
    ranges = host.filter(~IN_API)
    between = pl.col("part") == BETWEEN_CALLS
    asked = pieces.with_row_index("row").filter(between, pl.col("host_op_id").is_not_null())
    if asked.is_empty() or ranges.is_empty():
        return pieces
    calls = host.select("host_op_id", "pid", "tid")
    spans = asked.join(calls, on="host_op_id", how="left", maintain_order="left")
    spans = spans.with_columns(launch_id="host_op_id")
    texts = Texts(ranges.get_column("name"))
    around = find_covering(spans, ranges, texts, ("start_ns", "end_ns"), find_parents(ranges))
    names = ranges.get_column("name").gather(find_rows(ranges.get_column("host_op_id"), around))
    named = pl.DataFrame({"row": asked.get_column("row"), "around": names})
    joined = pieces.with_row_index("row").join(named, on="row", how="left", maintain_order="left")
    return joined.with_columns(name=pl.coalesce("around", "name")).drop("row", "around")


def describe_path(run: Run) -> dict[str, Any]:
    """`path_ns`, `parts` with their share of it (`pct`, 0 to 100), and all `pieces`.

    Of a recording with a long start-up it is of what repeats, as the report is. Raises
    MissingDataError where the recording has no device operation.
    """
    run = select_repeating(run)
    pieces = run.ask("critical_path")
    whole = max(int(pieces.get_column("duration_ns").sum()), 1)
    parts = sum_pieces(pieces, ["part"]).with_columns(pct=100 * pl.col("total_ns") / whole)
    return {"path_ns": whole, "parts": parts.to_dicts(), "pieces": pieces.to_dicts()}
