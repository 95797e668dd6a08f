"""Which thread launches a process' work: the one that launches most, and not any that did once."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import find_rows, take_rows
from sightline.core.model.run import Run

_PROCESS = ["rank", "pid"]
# A thread with fewer launches than this share of the busiest one's is a helper (ours: PyTorch's
# autograd thread launches a third to two thirds of a step; workers that only hand over a tensor
# have 1 of 152 and 21 of 2,819 in public recordings).
HELPER_SHARE = 0.1


def list_launching_threads(run: Run) -> pl.DataFrame:
    """Each thread that launches: rank, pid, tid, `launches`, `main_tid`, `is_helper`.

    `main_tid` is the thread of the process that launches most; of equals the lowest number.
    """
    return run.once(_list_launching_threads)


def _list_launching_threads(run: Run) -> pl.DataFrame:
    host = run.table("host_ops", ["host_op_id", *_PROCESS, "tid"])
    ids = run.table("device_ops", ["launch_id"]).get_column("launch_id").drop_nulls()
    calls = take_rows(host, find_rows(host.get_column("host_op_id"), ids).drop_nulls())
    most = pl.col("launches").max().over(_PROCESS)
    return (
        calls.group_by(*_PROCESS, "tid")
        .agg(launches=pl.len().cast(pl.Int64))
        .sort(*_PROCESS, "launches", "tid", descending=[False, False, True, False])
        .with_columns(
            main_tid=pl.col("tid").first().over(_PROCESS),
            is_helper=pl.col("launches") < HELPER_SHARE * most,
        )
    )


def list_helpers(run: Run) -> pl.DataFrame:
    """The helpers alone: rank, pid, tid, main_tid."""
    return list_launching_threads(run).filter("is_helper").select(*_PROCESS, "tid", "main_tid")
