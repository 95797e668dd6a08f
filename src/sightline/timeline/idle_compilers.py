"""The ranges in which a compiler held up a gap, and the one of them that names it."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import Texts, find_rows
from sightline.core.algebra.trees import climb_to_last, climb_to_rows
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import is_compiler
from sightline.timeline.idle_names import find_covering, find_longest
from sightline.timeline.launching import list_helpers
from sightline.timeline.runtimes import RANGE, find_runtimes, list_runtimes

_THREAD = ["rank", "pid", "tid"]


def lend_to_helpers(run: Run, ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges, and for each helper thread those of the thread that launches most.

    A helper launches what that thread has made ready: it waits meanwhile.
    """
    helpers = list_helpers(run).select("rank", "pid", helper="tid", tid="main_tid")
    lent = ranges.join(helpers, on=_THREAD, how="inner")
    if lent.is_empty():
        return ranges
    return pl.concat([ranges, lent.with_columns(tid="helper").select(ranges.columns)])


def name_compiling(
    found: pl.DataFrame, ranges: pl.DataFrame, names: Texts, up: pl.Series, lent: pl.DataFrame
) -> pl.Series:
    """The narrowest of a compiler's ranges that covers half of each gap, else the longest there.

    What a compiler calls of another one (nvFuser calls NVRTC) is its own work, and named after it.
    `up` is the row of each range's parent; `lent` are the compilers' ranges, with those that
    helpers wait for.
    """
    rows = is_compiler(names).arg_true().cast(pl.UInt32)
    texts = ranges.get_column("name").gather(rows)
    known = [r.runtime for r in list_runtimes()]
    owner = find_runtimes(texts, RANGE).replace_strict(
        dict(enumerate(known)), default=None, return_dtype=pl.String
    )
    of_row = pl.repeat(None, up.len(), dtype=pl.String, eager=True).scatter(rows, owner)
    outermost = climb_to_last(up, rows, rows)
    own = rows.filter((owner == of_row.gather(outermost)).fill_null(value=True))
    mine = lent.filter(
        pl.col("host_op_id").is_in(ranges.get_column("host_op_id").gather(own).implode())
    ).with_columns(layer=pl.lit("annotation"))
    ids = mine.get_column("host_op_id")
    # In the order of `ranges` first; those lent to helpers lie behind, and inside none.
    count = own.len()
    outer = climb_to_rows(up, own, up.gather(own))
    place = find_rows(ids.head(count), ranges.get_column("host_op_id").gather(outer))
    within = pl.concat(
        [
            place.cast(pl.UInt32).rename("up"),
            pl.repeat(None, mine.height - count, dtype=pl.UInt32, eager=True).rename("up"),
        ]
    )
    narrow = find_covering(
        found, mine, Texts(ids.cast(pl.String)), ("start_ns", "host_end_ns"), within
    )
    longest = find_longest(found, mine, _THREAD)
    return pl.select(pl.coalesce(narrow, longest).alias("host_op_id")).to_series()
