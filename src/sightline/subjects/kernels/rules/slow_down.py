"""From some moment on, all kernels take longer than the same kernels did before.

Symptom
    The same kernels, in the same shapes, are slower in the later part of the window.

Why it hurts
    The device does the same work at a lower clock (heat, power), or shares its units or its memory
    with something else: another program, communication, a profiler.

Evidence
    Kernels of one name and launch configuration, 20 of them or more, each against its group's
    median. The window is cut into 20 pieces of time; every piece behind the cut is slower than
    every one before it, and most of the kernel time is in groups that got slower. The gain is a
    replay in which the later kernels take as long as the earlier ones.

Threshold
    Slower by 10 % or more (ours: several times what clocks vary in steady state), and over
    5 % of the window to gain. Where clocks were recorded, clock-throttled says more, and this rule
    is silent.

Fix
    See what the clocks did: sightline run --for energy, nvidia-smi -q -d PERFORMANCE; look
    for other programs on the device.

False positives
    Kernels whose work grows with the data although their launch shape stays (a growing KV cache,
    sparse work). Left out are those for which more bytes were copied to the device from that moment
    on, and those that differed among themselves before it as much as they slow down.

References
    NVIDIA, NVML API Reference: clocks event reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import is_one_group
from sightline.core.algebra.latest import find_next
from sightline.core.algebra.lookup import add_up_rows, number_groups, take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct
from sightline.errors import MissingDataError
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("slow-down", "All kernels slow down during the run", over_time=True)

SLOWER = 1.10
_LIKE, _PIECES, _EDGE = 20, 20, 3
_MOST = 0.8  # of the kernel time that is compared, in groups that got slower
_DEVICE = ["rank", "device_id"]
_GROUP = [*_DEVICE, "name", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or _has_clocks(run):
        return
    kernels = list_kernels(run)
    slower = [
        cut
        for device in _split_devices(_compare_to_like(run, kernels))
        if (cut := _find_cut(device)) and not _copies_grow(run, cut[2])
    ]
    if not slower:
        return
    later = pl.concat([late for _, _, late in slower])
    since_ns, times, _ = max(slower, key=lambda cut: cut[1])
    found = find_shorter_kernels(
        run,
        RULE,
        take_rows(kernels, later.get_column("row")).hstack(later.select("factor")),
        "{share} of the window is lost because, from some moment on, the same kernels take longer.",
        cause="a lower clock (heat, power), or something else that runs on the device: likely, "
        "since clocks were not recorded",
        fix="record the clocks: sightline run --for energy, or nvidia-smi -q -d PERFORMANCE; look "
        "for other programs on the GPU",
        verify="sightline stats kernels --window START..END, before and after that moment",
        sources=("NVML API Reference: clocks event reasons",),
        extra=[f"{format_pct(100 * (times - 1))} slower from {format_ns(since_ns)} on"],
    )
    if found:
        yield found


def _split_devices(kernels: pl.DataFrame) -> list[pl.DataFrame]:
    return [kernels] if is_one_group(kernels, _DEVICE) else kernels.partition_by(_DEVICE)


def _has_clocks(run: Run) -> bool:
    """Whether the device's clock was recorded."""
    try:
        run.ask("slow_clocks")
    except MissingDataError:
        return False
    return True


def _copies_grow(run: Run, later: pl.DataFrame) -> bool:
    """Whether what the device copies grew as well from that moment on: then its work did."""
    rank, device = later.select(_DEVICE).row(0)
    is_later = pl.col("start_ns") >= later.get_column("start_ns").min()
    before, after = (
        run.columns("device_ops", [*_DEVICE, "kind", "bytes", "start_ns"])
        .filter(pl.col("kind") == "memcpy", pl.col("rank") == rank, pl.col("device_id") == device)
        .select(
            before=pl.col("bytes").filter(~is_later).mean(),
            after=pl.col("bytes").filter(is_later).mean(),
        )
        .row(0)
    )
    return before is not None and after is not None and after >= SLOWER * before


def _compare_to_like(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with 20 like ones or more: `ratio` to their median, and the `piece` of the window.

    `row` is a kernel's place in `kernels`, of which there is only what is compared; `fed` is how
    many bytes came from the host since the kernel before it.
    """
    start, end = pl.col("start_ns").min(), pl.col("start_ns").max()
    if not is_one_group(kernels, _DEVICE):
        start, end = start.over(_DEVICE), end.over(_DEVICE)
    piece = _PIECES * (pl.col("start_ns") - start) // (end - start + 1)
    group = number_groups(kernels, _GROUP)[0].alias("group")
    fed = _measure_fed(run, kernels).alias("fed")
    return (
        kernels.select(*_DEVICE, "start_ns", "length", group, fed, piece=piece)
        .with_columns(since=pl.col("start_ns") - start)
        .with_row_index("row")
        .filter(pl.len().over("group") >= _LIKE, pl.col("length") > 0)
        .with_columns(ratio=pl.col("length") / pl.col("length").median().over("group"))
    )


def _measure_fed(run: Run, kernels: pl.DataFrame) -> pl.Series:
    """The bytes that were copied to each kernel's device since the kernel before it."""
    ops = run.table("device_ops", [*_DEVICE, "copy_kind", "bytes", "start_ns"])
    copies = ops.filter(pl.col("copy_kind") == "HtoD").drop_nulls("bytes")
    kernel = find_next(copies, "start_ns", kernels, "start_ns", _DEVICE)
    return add_up_rows(kernel, copies.select("bytes"), kernels.height).get_column("bytes")


def _find_cut(kernels: pl.DataFrame) -> tuple[int, float, pl.DataFrame] | None:
    """When one device slowed down (ns in its window), how many times, and its slower kernels."""
    pieces = kernels.group_by("piece").agg(pl.col("ratio").median(), pl.len()).sort("piece")
    ratios = pieces.get_column("ratio").to_list()
    best = None
    for at in range(_EDGE, len(ratios) - _EDGE):
        before, after = ratios[:at], ratios[at:]
        times = min(after) / max(before)
        if times > 1 and (best is None or times > best[1]):
            best = (at, times)
    if best is None:
        return None
    piece = pieces.item(best[0], "piece")
    is_later = pl.col("piece") >= piece
    by_group = kernels.group_by("group").agg(
        before=pl.col("length").filter(~is_later).median(),
        after=pl.col("length").filter(is_later).median(),
        whole=pl.col("length").sum(),
        fed_before=pl.col("fed").filter(~is_later).median(),
        fed_after=pl.col("fed").filter(is_later).median(),
        low=pl.col("length").filter(~is_later).quantile(0.1),
        high=pl.col("length").filter(~is_later).quantile(0.9),
    )
    # Who works on more, or on something else each time, does not slow down.
    grows = pl.col("fed_after") > pl.col("fed_before")
    varies = pl.col("high") * pl.col("before") > pl.col("low") * pl.col("after")
    by_group = by_group.filter(~grows.fill_null(value=False), ~varies.fill_null(value=False))
    by_group = by_group.drop_nulls(["before", "after"])
    times = by_group.select(
        (pl.col("after") / pl.col("before") * pl.col("whole")).sum() / pl.col("whole").sum()
    ).item()
    half = 1 + (times or 0) / 2 - 0.5
    slow = by_group.filter(pl.col("after") >= half * pl.col("before"))
    share = sum_column(slow, "whole") / max(sum_column(by_group, "whole"), 1)
    if not times or times < SLOWER or share < _MOST:
        return None
    later = (
        kernels.filter(is_later)
        .join(slow, on="group", how="inner", maintain_order="left")
        .with_columns(factor=(pl.col("before") / pl.col("length")).clip(upper_bound=1.0))
        .filter(pl.col("factor") < 1)
    )
    return int(later.get_column("since").min() or 0), float(times), later  # type: ignore[arg-type]
