"""What limits the conclusions that a trace allows."""

from __future__ import annotations

import polars as pl

from reference_reader.rows import Rows
from sightline.model.declare import Quality


def checks(rows: Rows, device: pl.DataFrame, host: pl.DataFrame, ambiguous: int) -> list[Quality]:
    """All limits that show in the rows and the tables made of them."""
    found: list[Quality] = []
    if rows.not_events:
        found.append(
            Quality(
                "not_events", "warning", "entries that are no events were skipped", rows.not_events
            )
        )
    if rows.negative_durations:
        found.append(
            Quality(
                "negative_durations",
                "warning",
                "events that end before they start were left out",
                rows.negative_durations,
                "Update PyTorch; clocks of some driver versions run backwards.",
            )
        )
    if rows.unmatched_begins:
        found.append(
            Quality(
                "unmatched_begins",
                "warning",
                "begin or end events without their other half were left out",
                rows.unmatched_begins,
            )
        )
    if rows.unknown_categories:
        named = ", ".join(name for name, _ in rows.unknown_categories.most_common(5))
        found.append(
            Quality(
                "unknown_categories",
                "info",
                f"events of categories unknown to sightline are kept as host ranges: {named}",
                sum(rows.unknown_categories.values()),
            )
        )
    if device.is_empty():
        found.append(
            Quality(
                "no_device_ops",
                "warning",
                "no GPU operations were recorded: CPU side only",
                None,
                "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
            )
        )
    else:
        found += _device_checks(device, ambiguous)
    if host.is_empty():
        found.append(
            Quality(
                "no_host_ops",
                "warning",
                "no CPU side was recorded: idle has no cause",
                None,
                "Record with ProfilerActivity.CPU too.",
            )
        )
    else:
        found += _host_checks(host)
    return found


def without_device(count: int) -> Quality:
    """Device operations that name no device."""
    return Quality(
        "without_device",
        "warning",
        "GPU operations that name no device were counted for device 0",
        count,
    )


def _device_checks(device: pl.DataFrame, ambiguous: int) -> list[Quality]:
    found = []
    unmatched = device.get_column("launch_id").null_count()
    if unmatched:
        found.append(
            Quality(
                "unmatched_launches",
                "info" if unmatched * 20 < device.height else "warning",
                f"of {device.height:,} GPU operations have no launch call in the recording",
                unmatched,
                "Start recording before the work is launched, with CPU activity on.",
            )
        )
    if ambiguous:
        found.append(
            Quality(
                "ambiguous_launches",
                "warning",
                "correlation ids are used by several processes; the first was taken",
                ambiguous,
            )
        )
    zero = device.filter(pl.col("start_ns") == pl.col("end_ns")).height
    if zero:
        found.append(Quality("zero_durations", "info", "GPU operations have no length", zero))
    whole_us = device.select(
        ((pl.col("start_ns") % 1000 == 0) & (pl.col("end_ns") % 1000 == 0)).all()
    ).item()
    if whole_us and device.height >= 10:
        found.append(
            Quality(
                "microsecond_clock",
                "info",
                "times are whole microseconds: short kernels and gaps are off by up to 1 µs each",
                None,
                "Record with PyTorch 2.3 or newer.",
            )
        )
    return found


def _host_checks(host: pl.DataFrame) -> list[Quality]:
    found = []
    layers = set(host.get_column("layer").unique().to_list())
    if "python" not in layers and host.get_column("stack").null_count() == host.height:
        found.append(
            Quality(
                "no_python_stacks",
                "info",
                "no Python stacks: causes are named by op, not by line",
                None,
                "Record with with_stack=True.",
            )
        )
    if "step" not in layers:
        found.append(
            Quality(
                "no_steps",
                "info",
                "no steps are marked",
                None,
                "Call prof.step() once per iteration.",
            )
        )
    elif host.filter(pl.col("layer") == "step").get_column("name").n_unique() == 1:
        found.append(
            Quality(
                "one_step",
                "info",
                "one step only: nothing can be said on how steps vary",
                None,
                "Record at least three steps after the warm-up.",
            )
        )
    return found
