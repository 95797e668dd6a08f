"""What a thread was in while a device waited for it: the narrowest name, by overlap with the gap.

A range that covers more than half of a span is open in the middle of it: from the innermost one
there up, the first that does is the answer. Where none does, calls of one name may in sum.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, find_rows
from sightline.core.algebra.trees import climb_to_rows, find_open_range
from sightline.timeline.host_ranges import PACE_NS

_THREAD = ["rank", "pid", "tid"]


def find_covering(
    found: pl.DataFrame, ranges: pl.DataFrame, names: Texts, span: tuple[str, str], up: pl.Series
) -> pl.Series:
    """For each gap the narrowest range, or one of several of a name, that covers half of the span.

    `span` names the columns of its begin and end; the answer is `host_op_id`, null where nothing
    covers so much or where no launch is known. A call of the system stands for what is around it.
    """
    nothing = pl.repeat(None, found.height, dtype=pl.Int64, eager=True)
    since, until = span
    asked = (found.get_column(since) < found.get_column(until)) & (
        found.get_column("launch_id").is_not_null()
    )
    spans = found.filter(asked).select(*_THREAD, since=since, until=until)
    if spans.is_empty() or ranges.is_empty():
        return nothing
    middle = spans.with_columns(middle=(pl.col("since") + pl.col("until")) // 2)
    open_ = find_open_range(ranges, middle, "middle", up)
    rows = find_rows(ranges.get_column("host_op_id"), open_).cast(pl.UInt32)
    rows = _climb_to_half(rows, spans, ranges, up)
    long = rows.is_null() & spans.select(pl.col("until") - pl.col("since") > PACE_NS).to_series()
    if long.any():
        at = long.arg_true()
        rows = rows.scatter(at, _find_repeated(spans[at], ranges, names))
    rows = _leave_system(rows, ranges, up)
    return nothing.scatter(asked.arg_true(), ranges.get_column("host_op_id").gather(rows))


def find_longest(found: pl.DataFrame, ranges: pl.DataFrame, by: list[str]) -> pl.Series:
    """For each gap (`start_ns` to `end_ns`) the range of these that overlaps it longest, or null.

    Of ranges that begin before the gap, only the last is looked at: they are of one kind, and few
    lie inside each other.
    """
    ids = ranges.get_column("host_op_id")
    gaps = found.select(*by, "start_ns", "end_ns").with_row_index("gap")
    inside = find_latest(ranges, "start_ns", gaps, "start_ns", by)
    before = find_latest(gaps, "start_ns", ranges, "start_ns", by)
    rows = pl.concat(
        [
            pl.DataFrame({"gap": inside, "row": pl.int_range(ranges.height, eager=True)}),
            pl.DataFrame({"gap": pl.int_range(gaps.height, eager=True), "row": before}),
        ],
        how="vertical_relaxed",
    ).drop_nulls()
    gap, row = rows.get_column("gap"), rows.get_column("row")
    best = (
        rows.with_columns(
            ns=pl.min_horizontal(gaps["end_ns"].gather(gap), ranges["end_ns"].gather(row))
            - pl.max_horizontal(gaps["start_ns"].gather(gap), ranges["start_ns"].gather(row))
        )
        .filter(pl.col("ns") > 0)
        .sort("gap", "ns", "row", descending=[False, True, False])
        .unique("gap", keep="first", maintain_order=True)
    )
    nothing = pl.repeat(None, found.height, dtype=pl.Int64, eager=True)
    return nothing.scatter(best.get_column("gap"), ids.gather(best.get_column("row")))


def _climb_to_half(
    rows: pl.Series, spans: pl.DataFrame, ranges: pl.DataFrame, up: pl.Series
) -> pl.Series:
    """From each row up to the first range that covers at least half of its span."""
    begin, end = ranges.get_column("start_ns"), ranges.get_column("end_ns")
    at = rows.is_not_null().arg_true()
    while at.len():
        mine, asked = rows.gather(at), spans[at]
        covered = asked.select(
            2 * (pl.min_horizontal("until", end.gather(mine))
                 - pl.max_horizontal("since", begin.gather(mine)))
            >= pl.col("until") - pl.col("since")
        ).to_series()  # fmt: skip
        at = at.filter(~covered)
        rows = rows.scatter(at, up.gather(rows.gather(at)))
        at = at.filter(rows.gather(at).is_not_null())
    return rows


def _find_repeated(spans: pl.DataFrame, ranges: pl.DataFrame, names: Texts) -> pl.Series:
    """For each span the longest range of the name whose ranges that begin in it take half of it."""
    spans = spans.with_row_index("span")
    span = find_latest(ranges, "start_ns", spans, "since", _THREAD)
    until = spans.get_column("until").gather(span)
    begun = (ranges.get_column("start_ns") < until).fill_null(value=False).arg_true()
    each = pl.DataFrame(
        {
            "row": begun.cast(pl.UInt32),
            "span": span.gather(begun),
            "name": names.places.gather(begun),
            "ns": pl.select(
                pl.min_horizontal(ranges["end_ns"].gather(begun), until.gather(begun))
                - ranges["start_ns"].gather(begun)
            ).to_series(),
        }
    )
    length = spans.select(span="span", whole=pl.col("until") - pl.col("since"))
    # Of several names the narrowest: the one that takes least of those that take half.
    best = (
        each.group_by("span", "name")
        .agg(pl.col("ns").sum(), row=pl.col("row").sort_by("ns").last())
        .join(length.cast({"span": pl.Int64}), on="span")
        .filter(2 * pl.col("ns") >= pl.col("whole"))
        .sort("span", "ns", "row", descending=[False, False, True])
        .unique("span", keep="first", maintain_order=True)
    )
    nothing = pl.repeat(None, spans.height, dtype=pl.UInt32, eager=True)
    return nothing.scatter(best.get_column("span"), best.get_column("row"))


def _leave_system(rows: pl.Series, ranges: pl.DataFrame, up: pl.Series) -> pl.Series:
    """Each row, or what is around it where that is known and it is a call of the system."""
    layer = ranges.get_column("layer")
    is_system = (layer.gather(rows) == "os").fill_null(value=False)
    if not is_system.any():
        return rows
    at = is_system.arg_true()
    outer = climb_to_rows(up, (layer != "os").arg_true().cast(pl.UInt32), rows.gather(at))
    return rows.scatter(at, pl.select(pl.coalesce(outer, rows.gather(at))).to_series())
