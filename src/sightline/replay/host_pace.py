"""How fast the host ran, thread by thread and moment by moment, in recordings of one program.

Two recordings of one program run on other cores, beside other neighbours, with other caches: on one
machine a thread took twice as long in one recording as in the next for all that it did, from an
operator's first instruction to a launch, while the thread beside it did not. Between two sides that
difference is not the program's. What they share tells it: the stretch from one event to the next,
of the same names, has on both sides the same work in it. A stretch's usual length and the pace of
the moments in which it is longer are found in turns (Tukey's median polish, of logarithms).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

# A moment is so many stretches of a thread: half a millisecond of a busy one (ours).
_MOMENT = 64
# Stretches of fewer are no measure of what is usual; longer ones are the program's own work.
_LEAST_EQUAL, _MOST_NS = 8, 20_000
# Rounds of the polish: the pace changes by less than 1 % after the third.
_ROUNDS = 5
# Quantiles: of a stretch and of a moment the lower half, since what interrupts only adds; of all
# moments the fast ones are the pace that all are measured by, of a thread's what it always has.
_USUAL, _OF_MOMENT, _FASTEST, _STEADY = 0.3, 0.4, 0.1, 0.3
# Of so many stretches the pace is as exact: whole moments, evenly, of longer recordings.
_ENOUGH = 400_000


def measure_paces(stretches: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Of each side's stretches (thread, of, next, ns), how much slower than at the fastest pace.

    Two columns, 1 or more: `core`, by which a thread was slower all along, and `pace`, by which it
    was at that moment, never below `core`. `thread` is a number, `of` and `next` say which events.
    """
    if not stretches:
        return []
    rows = [
        side.select(
            pl.lit(number, pl.Int32).alias("side"),
            "thread",
            "ns",
            kin=pl.struct("of", "next").hash(),
            moment=pl.int_range(pl.len()).over("thread") // _MOMENT,
        )
        for number, side in enumerate(stretches)
    ]
    every = pl.concat(rows)
    paces = _polish(every)
    known = every.join(
        paces, on=["side", "thread", "moment"], how="left", maintain_order="left"
    ).with_columns(pl.col("slower").forward_fill().backward_fill().over("side", "thread"))
    fastest = paces.get_column("slower").quantile(_FASTEST) or 0.0
    steady = paces.group_by("side", "thread").agg(steady=pl.col("slower").quantile(_STEADY))
    known = known.join(steady, on=["side", "thread"], how="left", maintain_order="left")
    core = (pl.col("steady") - fastest).exp().clip(1.0).fill_null(1.0)
    pace = (pl.col("slower") - fastest).exp().fill_null(1.0)
    found = known.select("side", core=core, pace=pl.max_horizontal(core, pace))
    return [found.filter(pl.col("side") == number).drop("side") for number in range(len(stretches))]


def _polish(every: pl.DataFrame) -> pl.DataFrame:
    """How much slower each moment of each thread was, as a logarithm: 0 is the usual pace."""
    where = ["side", "thread", "moment"]
    every_nth = max(every.height // _ENOUGH, 1)
    rows = (
        every.filter(pl.col("ns").is_between(1, _MOST_NS), pl.col("moment") % every_nth == 0)
        .filter(pl.len().over("kin") >= _LEAST_EQUAL)
        .select(*where, "kin", log=pl.col("ns").cast(pl.Float64).log(), slower=pl.lit(0.0))
    )
    for _ in range(_ROUNDS):
        usual = (pl.col("log") - pl.col("slower")).quantile(_USUAL).over("kin")
        rows = rows.with_columns(usual=usual)
        slower = (pl.col("log") - pl.col("usual")).quantile(_OF_MOMENT).over(where)
        rows = rows.with_columns(slower=slower)
    return (
        rows.group_by(where)
        .agg(pl.col("slower").first(), n=pl.len())
        .filter(pl.col("n") >= _MOMENT // 4)
        .drop("n")
    )
