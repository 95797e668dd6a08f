"""Counters of tracks and of GPUs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

_COUNTER = 4
_GPU = r"(?:^|\s)GPU (\d+)(?:$|\s)"


def list_counters(
    events: pl.DataFrame,
    raw: Mapping[str, pl.DataFrame],
    tracks: pl.DataFrame,
    people: pl.DataFrame,
) -> pl.DataFrame:
    """The table counters."""
    return pl.concat(
        [
            _of_tracks(events, tracks),
            _of_gpus(raw["gpu_counters"]),
            _of_clocks(raw["frequencies"]),
            _of_memory(raw["memory"], people),
            _of_memory(_find_owners(raw["resident"], people), people),
        ],
        how="diagonal",
    )


def _of_tracks(events: pl.DataFrame, tracks: pl.DataFrame) -> pl.DataFrame:
    """Values of counter tracks. Where a track counts steps, they are added up in its sequence."""
    rows = (
        events.with_row_index("row")
        .filter(pl.col("type") == _COUNTER)
        .join(tracks, on="track", how="left", maintain_order="left")
    )
    value = pl.col("value").cast(pl.Float64)
    summed = value.fill_null(0.0).cum_sum().over("track", "generation")
    stepwise = pl.col("is_incremental").fill_null(0) != 0
    pid = pl.coalesce("owner_pid", "pid")
    device = pl.coalesce(pl.col("title").str.extract(_GPU), pl.col("above").str.extract(_GPU)).cast(
        pl.Int64, strict=False
    )
    return rows.select(
        metric=pl.coalesce("title", "name", pl.lit("unnamed counter")),
        unit="unit",
        device_id=device,
        source=pl.when(device.is_null() & pid.is_not_null()).then(
            pl.format("process {}", pid.fill_null(0))
        ),
        time_ns="time",
        value=pl.when(stepwise).then(summed).otherwise(value)
        * pl.col("multiplier").fill_null(1).cast(pl.Float64),
    ).drop_nulls("value")


def _of_gpus(frame: pl.DataFrame) -> pl.DataFrame:
    """Values of GPU counters. Each covers the time since the counter's last one.

    So Perfetto takes them (gpu_counter_event.proto): a sample is taken at the end of its interval.
    """
    ordered = frame.sort("time", maintain_order=True)
    before = pl.col("time").shift(1).over("gpu", "name")
    return ordered.select(
        metric="name", device_id="gpu", from_ns=before, time_ns="time", value="value"
    )


def _of_clocks(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        metric=pl.lit("GPU clock"),
        unit=pl.lit("Hz"),
        device_id="gpu",
        time_ns="time",
        value=pl.col("khz").cast(pl.Float64) * 1000,
    ).drop_nulls("value")


def _find_owners(frame: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """What the kernel said of a thread's memory, by the thread's process: a lone one is its own."""
    known = people.select("tid", pid="pid").unique("tid", keep="last", maintain_order=True)
    joined = frame.join(known, on="tid", how="left", maintain_order="left")
    return joined.select("time", "name", "bytes", pid=pl.coalesce("pid", "tid"))


def _of_memory(frame: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """Memory of processes by their names, of GPUs, and of the machine, bytes."""
    names = people.drop_nulls("process_name").unique("pid", keep="first", maintain_order=True)
    named = frame.join(
        names.select("pid", who="process_name"), on="pid", how="left", maintain_order="left"
    )
    process = pl.coalesce(
        pl.format("{} ({})", "who", "pid"), pl.format("process {}", "pid"), pl.lit(None, pl.String)
    )
    device = pl.col("gpu") if "gpu" in frame.columns else pl.lit(None, pl.Int64)
    return named.select(
        metric="name",
        unit=pl.lit("bytes"),
        device_id=device,
        source=process,
        time_ns="time",
        value=pl.col("bytes").cast(pl.Float64),
    )
