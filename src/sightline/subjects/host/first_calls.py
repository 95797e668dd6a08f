"""First calls of operators that set up what is used later: they happen once.

Ten times the others' median is ours: compilers and libraries make first calls 10 to 1,000 times
as long, and an operator that has more to do once seldom has ten times as much.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.host_parts import list_segments, sum_host_windows

TIMES, SINGLE_PCT = 10, 5.0
_NAME = ["rank", "name"]


def list_first_calls(run: Run) -> pl.DataFrame:
    """Operators whose first call is a setup.

    Columns: rank, name, first_id (host_op_id), first_ns, others_ns (median), count. None where no
    operator that came again shows that first calls are: single ones tell nothing.
    """
    return run.once(_list_first_calls)


def _list_first_calls(run: Run) -> pl.DataFrame:
    window = sum_host_windows(run)
    own = (
        list_segments(run)
        .drop_nulls("host_op_id")
        .group_by(*_NAME, "host_op_id")
        .agg(pl.col("own_ns").sum(), pl.col("start_ns").min())
        .drop_nulls("name")
        .sort("start_ns")
    )
    names = own.group_by(_NAME, maintain_order=True).agg(
        first_id=pl.col("host_op_id").first(),
        first_ns=pl.col("own_ns").first(),
        others_ns=pl.col("own_ns").slice(1).median(),
        count=pl.len(),
    )
    again = (pl.col("count") > 1) & (
        pl.col("first_ns") >= TIMES * pl.col("others_ns").clip(lower_bound=1)
    )
    large = 100 * pl.col("first_ns") >= SINGLE_PCT * window
    if names.filter(again & large).is_empty():
        return names.clear()
    kept = names.filter(again | ((pl.col("count") == 1) & large))
    return kept.sort("first_ns", "name", descending=[True, False])
