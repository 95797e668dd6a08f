"""Passes over a DataLoader with workers, and how long the host starts and ends these workers.

PyTorch records `enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`, and nothing of what
`iter(loader)` does before the first of them: unless `persistent_workers` is set, each pass forks
its workers, and its last `__next__`, which finds no batch, ends them (torch/utils/data/
dataloader.py).
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import Texts

_WITH_WORKERS = r"_MultiProcessingDataLoaderIter\.__next__"
# A process is forked and imports nothing in a few ms (ours: ten, for a loader of one worker).
_SILENT_NS = 10_000_000
# Between two batches of one pass lies a step; between two passes far less than that (ours).
_STEP_SHARE = 0.1
_THREAD = ["rank", "pid", "tid"]


def list_loader_starts(host: pl.DataFrame, names: Texts) -> pl.DataFrame:
    """The host's silence before the first batch of each pass: rows of `host` of that `__next__`.

    `host` has rank, pid, tid, layer, start_ns and end_ns, and `names` its names. Each row's time is
    from the last thing that its thread did before to where `__next__` begins.
    """
    batches = names.match(_WITH_WORKERS)
    if not batches.any():
        return host.clear()
    threads = host.filter(batches).select(_THREAD).unique()
    mine = (
        host.with_columns(is_batch=batches)
        .filter(pl.col("layer") != "step")
        .join(threads, on=_THREAD, how="semi", nulls_equal=True)
        .sort(*_THREAD, "start_ns", "end_ns", descending=[False, False, False, False, True])
        .with_columns(
            done_ns=pl.col("end_ns").cum_max().shift(1).over(_THREAD), at=pl.int_range(pl.len())
        )
        .with_columns(first=pl.col("at").min().over(_THREAD) - 1)
        .filter("is_batch")
        .with_columns(
            between=pl.col("at") - pl.col("at").shift(1).over(_THREAD).fill_null(pl.col("first"))
        )
    )
    usual = pl.col("between").max().over(_THREAD)
    begins = pl.col("between") <= _STEP_SHARE * usual
    silent = pl.col("start_ns") - pl.col("done_ns") >= _SILENT_NS
    found = mine.filter(begins & silent).with_columns(start_ns="done_ns", end_ns="start_ns")
    return found.select(host.columns)
