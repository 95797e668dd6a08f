"""How much of the processes of a job without devices is used: POP's factors of their main threads.

Useful is what a main thread does beside communication (POP Standard Metrics, pop-coe.eu). The ideal
network is replayed: the collectives are those of the world in order, and each takes no time once
the last rank is there. Where ranks do not have equally many, they cannot be matched, and all that
communication costs counts as transfer.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.run import Run
from sightline.fleet.efficiency import Efficiency, divide
from sightline.timeline.host_parts import COMMUNICATE, list_segments, list_windows

# What torch.distributed's operators are called on the thread that asks (c10d::allreduce_, ...).
_ASKS = r"^c10d::"


def measure_host_efficiency(run: Run) -> Efficiency:
    """The factors of a job whose ranks recorded what their threads did, and no device."""
    windows = list_windows(run)
    useful = (
        list_segments(run)
        .filter(pl.col("part") != COMMUNICATE)
        .group_by("rank")
        .agg(pl.col("own_ns").sum())
    )
    ranks, most = windows.height, find_largest(useful, "own_ns")
    length = find_largest(windows.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    whole = sum_column(useful, "own_ns")
    ideal = min(max(_replay_ideal(run, windows) or most, most), length)
    balance = divide(whole, ranks * most)
    return Efficiency(
        ranks=ranks,
        length_ns=length,
        useful_ns=whole,
        load_balance=balance,
        serialisation=divide(most, ideal),
        transfer=divide(ideal, length),
        talp_load_balance=balance,
        talp_communication=divide(most, length),
        talp_orchestration=1.0,
    )


def _replay_ideal(run: Run, windows: pl.DataFrame) -> int | None:
    """The job's length if collectives took no time once all are there; None if unmatched."""
    host = run.table("host_ops")
    asks = host.filter(match_names(host, _ASKS)).join(
        windows.select("rank", "pid", "tid", since="start_ns", until="end_ns"),
        on=["rank", "pid", "tid"],
    )
    asks = asks.filter(pl.col("start_ns") >= pl.col("since"), pl.col("start_ns") < pl.col("until"))
    counts = asks.group_by("rank").len().get_column("len")
    if counts.n_unique() != 1 or counts.len() != windows.height:
        return None
    worked = list_segments(run).filter(pl.col("part") != COMMUNICATE)
    before = []
    for rank in windows.get_column("rank").to_list():
        mine = worked.filter(pl.col("rank") == rank).sort("start_ns")
        starts = asks.filter(pl.col("rank") == rank).get_column("start_ns").sort()
        total = mine.select(pl.col("own_ns").cum_sum()).to_series()
        place = mine.get_column("end_ns").sort().search_sorted(starts, side="right")
        done = pl.concat([pl.Series([0], dtype=pl.Int64), total.rename("")]).gather(place)
        before.append(pl.concat([done.rename("own_ns"), total.tail(1).rename("own_ns")]))
    # Between two collectives each rank works for itself, and the slowest decides.
    each = pl.DataFrame([s.diff().fill_null(s[0]).alias(str(n)) for n, s in enumerate(before)])
    return int(each.select(pl.max_horizontal(pl.all()).sum()).item())
