"""Buffers that are filled and overwritten, and whose results are copied back, in turns."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run

# Ours: what is smaller takes no longer than its launch (3 MB move in a microsecond on an H100).
_LEAST_BYTES = 1 << 20
# Ours: fewer turns may be chance.
_TURNS = 4
# A turn may be cut off at either end of the recording, and one may have a fill for another reason.
_ALTERNATE = 0.9
_BUFFER = ["rank", "device_id", "stream_id", "bytes"]
_USED = ("device_op_id", *_BUFFER, "kind", "copy_kind", "start_ns", "end_ns", "launch_id")


def list_copied_back(run: Run) -> pl.DataFrame:
    """Fills and copies within the GPU of as many bytes, in turns, with kernels between them.

    The columns of `device_ops` that place them. Addresses are not recorded: that both are of one
    pair of buffers is a conclusion from their size and order.
    """
    return run.once(_list_copied_back)


def _list_copied_back(run: Run) -> pl.DataFrame:
    ops = select_starting_in(run.columns("device_ops", _USED), run.ask("windows"))
    is_copy = (pl.col("kind") == "memcpy") & (pl.col("copy_kind") == "DtoD")
    is_fill = pl.col("kind") == "memset"
    if ops.select((is_copy & (pl.col("bytes") >= _LEAST_BYTES)).sum()).item() < _TURNS:
        return ops.clear()
    in_order = ops.sort("rank", "device_id", "stream_id", "start_ns", "device_op_id").with_columns(
        computed=(pl.col("kind") == "kernel").cum_sum().over("rank", "device_id", "stream_id")
    )
    large = in_order.filter((is_copy | is_fill) & (pl.col("bytes") >= _LEAST_BYTES))
    changes = pl.col("kind") != pl.col("kind").shift(1)
    works = pl.col("computed") > pl.col("computed").shift(1)
    # Between the fill and the copy back a kernel writes; the next turn may begin at once.
    turned = changes & (works | is_fill)
    turns = large.with_columns(turned=turned.over(_BUFFER))
    each = pl.len().over(_BUFFER)
    enough = is_copy.sum().over(_BUFFER) >= _TURNS
    return turns.filter(
        enough & (pl.col("turned").sum().over(_BUFFER) >= _ALTERNATE * (each - 1))
    ).drop("computed", "turned")


def covers_most(run: Run, copies: pl.DataFrame) -> bool:
    """Whether most of the time of these copies is of such buffers, which have their own rule."""
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    mine = copies.join(list_copied_back(run), on="device_op_id", how="semi")
    return bool(2 * mine.select(length).item() > copies.select(length).item())
