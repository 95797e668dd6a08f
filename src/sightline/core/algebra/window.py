"""Rows that belong to a window."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import keep_rows


def select_starting_in(device_ops: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Operations that start in their device's window, whole: statistics do not cut a kernel."""
    inside = starts_in(device_ops, windows)
    return keep_rows(device_ops, inside)


def starts_in(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.Series:
    """Whether each row (rank, device_id, start_ns) starts in its device's window.

    What starts with the window's end and goes on belongs to what comes behind it (`end_ns`, where
    the rows have it); what has no length is still inside.
    """
    goes_on = pl.lit(value=False)
    if "end_ns" in rows.columns:
        goes_on = pl.col("end_ns") > pl.col("start_ns")
    if windows.height == 1:
        only = windows.row(0, named=True)
        within = pl.col("start_ns").is_between(only["window_start_ns"], only["window_end_ns"])
        within &= ~(goes_on & (pl.col("start_ns") == only["window_end_ns"]))
        mine = (pl.col("rank") == only["rank"]) & (pl.col("device_id") == only["device_id"])
        return rows.select((within & mine).fill_null(value=False)).to_series()
    return (
        rows.select("rank", "device_id", "start_ns", goes_on=goes_on)
        .join(
            windows.select("rank", "device_id", "window_start_ns", "window_end_ns"),
            on=["rank", "device_id"],
            how="left",
            maintain_order="left",
        )
        .select(
            (
                pl.col("start_ns").is_between("window_start_ns", "window_end_ns")
                & ~(pl.col("goes_on") & (pl.col("start_ns") == pl.col("window_end_ns")))
            ).fill_null(value=False)
        )
        .to_series()
    )


def host_in(host_ops: pl.DataFrame, windows: pl.DataFrame, *, whole_recording: bool) -> pl.Series:
    """Whether a host range starts in what the host did for its rank's window.

    Where the host runs ahead of the device, the host parts of steps lie before the steps' time.

    Where no window was chosen all of them count: what launched the first kernel started before it.
    """
    if whole_recording:
        return pl.repeat(value=True, n=host_ops.height, eager=True)
    spans = windows.group_by("rank").agg(pl.col("host_start_ns").min(), pl.col("host_end_ns").max())
    return (
        host_ops.select("rank", "start_ns")
        .join(spans, on="rank", how="left", maintain_order="left")
        .select(
            pl.col("start_ns")
            .is_between("host_start_ns", "host_end_ns", closed="left")
            .fill_null(value=False)
        )
        .to_series()
    )
