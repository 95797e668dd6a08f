"""How near each kernel came to its compute roof, where its instructions were sampled, not counted.

`sightline run --for stalls` records samples and no counters. They bound what a kernel computed:
which instructions it issued, and how often, is in the samples; how many warps were active is not,
and is bounded by what fits and by the warps that were launched (docs/roofline.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from sightline.core.model.columns import duration, number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.roofline.facts import Facts
from sightline.roofline.launch import limit_device
from sightline.roofline.peaks import find_compute_peak, find_flop_per_clock
from sightline.roofline.placement import BUSY_PCT, LATENCY_PCT
from sightline.roofline.sampled import (
    REJOINS,
    Bounds,
    Chip,
    Rate,
    Samples,
    Shape,
    bound_rate,
    bound_warps,
    find_unsized,
    fits_time,
    sum_operations,
    sum_requests,
)

_FLOP = "FLOP/s"
_BYTES = "bytes/s"
# With these limits of a recording it may lack launches of kernels whose samples it has.
_LOSSES = (
    "recorded_in_windows", "graphs_recorded_whole", "perturbation", "dropped_records",
    "unread_records", "truncated", "damaged_chunks", "missing_chunks", "missing_rows", "unfinished",
    "missing_times", "unfinished_operations",
)  # fmt: skip
ANALYSIS = Analysis(
    "sampled_roofline",
    "How close did each sampled kernel come to its compute roof, at least and at most?",
    (
        number("kernel_id", "the execution, or all of a function", required=True),
        text("name", "kernel"),
        number("launches", "launches in the timeline"),
        duration("device_ns", "their time on the device, added up"),
        number("samples", "samples of active warps"),
        number("issued_samples", "those in which the warp had issued an instruction"),
        real("warps_low", "active warps of an SM: the assumed lower bound", "warps"),
        real("warps_high", "the upper bound: the warps that fit", "warps"),
        pct("issue_low_pct", "issue slots used while an SM was active, at least"),
        pct("issue_high_pct", "and at most; one instruction per cycle and scheduler is 100 %"),
        text("precision", "fp64, fp32, fp16 or of a tensor core; null where none was sampled"),
        real("flop_per_s_low", "operations per second of its time, at least", _FLOP),
        real("flop_per_s_high", "and at most", _FLOP),
        real("peak_flop_per_s", "compute ceiling, as the vendor prints it", _FLOP),
        pct("of_peak_low_pct", "share of the ceiling while an SM was active, at least"),
        pct("of_peak_high_pct", "and at most"),
        real("l1_bytes_per_s_low", "what loads and stores ask of the L1, at least", _BYTES),
        real("l1_bytes_per_s_high", "and at most", _BYTES),
        text("bound", "compute, issue, memory or latency; null where the samples do not decide"),
        text("evidence", "what the bounds rest on, and why nothing was decided"),
    ),
    needs=("profiled_kernels", "pc_samples"),
    notes=(
        "Nothing is counted: at least and at most hold the samples' error (95 %) and what is not "
        "known of the active warps, which are taken to be at least half of those that fit.",
        "Lanes: of instructions with a predicate none to all, of others all; but one to all where "
        "the code has points at which diverged lanes reconverge.",
        "What is asked of the L1 is not traffic of the L2 or of device memory: it holds what the "
        "L1 answers itself. No samples show the traffic of device memory.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per sampled kernel and precision, the most samples first."""
    samples = _list_samples(run)
    if not any(s.instructions for s in samples.values()):
        raise MissingDataError(
            "no kernel can be placed by its samples",
            why="there is no sample in which a warp had issued an instruction that is known",
            hint="Record with  sightline run --for stalls.",
        )
    launches = _list_launches(run)
    devices = _list_devices(run)
    lossy = _find_lossy(run)
    rows: list[dict[str, Any]] = []
    for kernel in run.table("profiled_kernels").sort("kernel_id").iter_rows(named=True):
        known = samples.get(kernel["kernel_id"])
        if known is not None:
            shapes, ns = launches.get(kernel["kernel_id"], ([], None))
            seconds = ns / 1e9 if ns is not None and ns > 0 else None
            full = replace(known, seconds=seconds, is_whole=kernel["recording_id"] not in lossy)
            device = devices.get((kernel["rank"], kernel["recording_id"], kernel["device_id"]), {})
            rows += _list_rows(kernel, full, shapes, ns, device)
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    return pl.DataFrame(rows, schema=schema).sort(
        "samples", "kernel_id", "precision", descending=[True, False, False], nulls_last=True
    )


def _list_samples(run: Run) -> dict[int, Samples]:
    """Samples of each kernel, without its time."""
    table = run.table("pc_samples").filter(pl.col("samples") > 0)
    totals = table.group_by("kernel_id").agg(
        count=pl.col("samples").sum(),
        period=pl.col("period_cycles").max(),
        parts=pl.col("opcode").is_in(REJOINS).any(),
    )
    met = (
        table.filter(pl.col("stall_class") == "issuing")
        .group_by("kernel_id", "issued_operation")
        .agg(pl.col("samples").sum())
    )
    issued: dict[int, dict[str | None, int]] = {}
    for kernel_id, operation, count in met.iter_rows():
        issued.setdefault(kernel_id, {})[operation] = count
    return {
        kernel_id: Samples(count, issued.get(kernel_id, {}), period, None, parts)
        for kernel_id, count, period, parts in totals.iter_rows()
    }


_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread")
_SHARED = ("static_shared_bytes", "dynamic_shared_bytes")


def _list_launches(run: Run) -> dict[int, tuple[list[Shape], int | None]]:
    """The launches of each kernel by their shapes, and their time in ns.

    Samples of one execution name its launch; those of a function are of all its launches.
    """
    kernels = run.table("profiled_kernels")
    own = kernels.filter(pl.col("grid_x").is_not_null())
    whole = kernels.filter(pl.col("grid_x").is_null(), pl.col("mangled_name").is_not_null())
    place = ["rank", "recording_id", "device_id"]
    ops = run.table("device_ops").filter(pl.col("kind") == "kernel")
    ops = ops.select(
        *place, "mangled_name", "correlation_id", *_SHAPE, *_SHARED,
        ns=pl.col("end_ns") - pl.col("start_ns"),
    )  # fmt: skip
    times = ops.select(*place, api_call_id="correlation_id", timed="ns").drop_nulls("api_call_id")
    times = times.unique([*place, "api_call_id"], keep="first", maintain_order=True)
    single = own.join(times, on=[*place, "api_call_id"], how="left", nulls_equal=True).select(
        "kernel_id", *_SHAPE, *_SHARED, ns=pl.coalesce("duration_ns", "timed")
    )
    every = whole.select("kernel_id", "mangled_name", *place).join(
        ops, on=["mangled_name", *place], nulls_equal=True
    )
    both = pl.concat([single, every.select(single.columns)])
    alike = both.group_by("kernel_id", *_SHAPE, *_SHARED, maintain_order=True).agg(
        launches=pl.len(), ns=pl.col("ns").sum(), timed=pl.col("ns").count()
    )
    found: dict[int, tuple[list[Shape], int | None]] = {}
    for row in alike.iter_rows(named=True):
        shapes, ns = found.get(row["kernel_id"], ([], 0))
        shape = _make_shape(row)
        is_whole = ns is not None and shape is not None and row["timed"] == row["launches"]
        found[row["kernel_id"]] = (
            [*shapes, shape] if shape else shapes,
            ns + row["ns"] if ns is not None and is_whole else None,
        )
    return found


def _make_shape(row: dict[str, Any]) -> Shape | None:
    sizes = [row[name] for name in _SHAPE]
    if None in sizes or min(sizes[:-1]) <= 0 or sizes[-1] < 0:
        return None
    gx, gy, gz, bx, by, bz, registers = sizes
    shared = sum(max(row[name] or 0, 0) for name in _SHARED)
    return Shape(row["launches"], gx * gy * gz, bx * by * bz, registers, shared)


def _find_lossy(run: Run) -> set[int]:
    """Recordings that may lack launches: by their limits, or as graphs stand for their kernels."""
    limits = run.table("quality").filter(pl.col("kind").is_in(_LOSSES))
    graphs = run.table("device_ops").filter(pl.col("kind") == "graph")
    return {
        *limits.get_column("recording_id").to_list(),
        *graphs.get_column("recording_id").unique(),
    }


def _list_devices(run: Run) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = run.table("devices").iter_rows(named=True)
    return {(d["rank"], d["recording_id"], d["device_id"]): d for d in rows}


def _list_rows(
    kernel: dict[str, Any],
    samples: Samples,
    shapes: list[Shape],
    ns: int | None,
    device: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    row = {
        "kernel_id": kernel["kernel_id"],
        "name": kernel["name"],
        "launches": sum(s.launches for s in shapes) or None,
        "device_ns": ns,
        "samples": samples.count,
        "issued_samples": samples.instructions,
    }
    limits = limit_device(device.get("compute_capability"))
    if limits is None:
        yield row | {"evidence": "the recording does not say which GPU it was: no limits of its SM"}
        return
    sms, clock = (device.get(name) or 0 for name in ("sm_count", "max_clock_hz"))
    chip = Chip(limits, sms if sms > 0 else None, clock if clock > 0 else None)
    warps = bound_warps(shapes, chip)
    issue = bound_rate(samples.instructions, (1.0, 1.0), samples, shapes, chip)
    used = _pct(issue.per_cycle, limits.schedulers)
    count, each = sum_requests(samples)
    asked = bound_rate(count, each, samples, shapes, chip).per_second if count else None
    row |= {
        "warps_low": warps.low,
        "warps_high": warps.high,
        "issue_low_pct": used.low,
        "issue_high_pct": used.high,
        "l1_bytes_per_s_low": asked and asked.low,
        "l1_bytes_per_s_high": asked and asked.high,
    }
    facts = Facts(kernel, {}, device)
    placed = [
        _place(precision, bound_rate(part, flop, samples, shapes, chip), facts)
        for precision, (part, flop) in sorted(sum_operations(samples).items())
    ]
    bound, why = _judge(used, placed, samples)
    known = list(_describe(samples, shapes, warps, chip))
    for arithmetic in placed or [{}]:
        yield row | arithmetic | {"bound": bound, "evidence": "; ".join([*why, *known])}


def _place(precision: str, rate: Rate, facts: Facts) -> dict[str, Any]:
    """A precision's share of its ceiling, and its operations per second."""
    of_sm = find_flop_per_clock(facts, precision)
    share = None if of_sm is None else _pct(rate.per_cycle, of_sm)
    peak = find_compute_peak(facts, precision)
    second = rate.per_second
    return {
        "precision": precision,
        "flop_per_s_low": second and second.low,
        "flop_per_s_high": second and second.high,
        "peak_flop_per_s": peak.datasheet or peak.best,
        "of_peak_low_pct": share and share.low,
        "of_peak_high_pct": share and share.high,
    }


def _pct(rate: Bounds, most: float) -> Bounds:
    """As a share of what a unit does in a cycle at most, which it cannot exceed.

    Where the lower bound would, fewer warps were active than assumed: then there is none.
    """
    low = 0.0 if rate.low > most else 100 * rate.low / most
    return Bounds(low, min(100.0, 100 * rate.high / most))


def _judge(
    used: Bounds, placed: list[dict[str, Any]], samples: Samples
) -> tuple[str | None, list[str]]:
    """What bounds the kernel, where the bounds leave no other answer, and why."""
    shares = [(p["precision"], p["of_peak_low_pct"], p["of_peak_high_pct"]) for p in placed]
    for precision, low, _ in shares:
        if low is not None and low >= LATENCY_PCT:
            return "compute", [f"at least {low:.0f} % of the {precision} ceiling"]
    if used.low >= BUSY_PCT:
        return "issue", [f"at least {used.low:.0f} % of the issue slots used"]
    if used.low == 0 or any(low == 0 and high == 100 for _, low, high in shares):
        return None, ["fewer warps were active than is assumed: no lower bound"]
    if set(samples.issued) <= {None}:
        return None, ["the recording does not say which instructions they are"]
    if find_unsized(samples.issued):
        return None, ["there are matrix products whose size is not known"]
    highest = max([used.high, *(100.0 if high is None else high for _, _, high in shares)])
    if highest < LATENCY_PCT:
        return "memory or latency", [
            f"at most {highest:.0f} % of the issue slots and of every compute ceiling"
        ]
    return None, [f"between less and more than {LATENCY_PCT:.0f} % of a ceiling"]


def _describe(samples: Samples, shapes: list[Shape], warps: Bounds, chip: Chip) -> Iterator[str]:
    """What the bounds rest on."""
    if shapes:
        yield (
            f"{warps.low:.3g} to {warps.high:.3g} active warps: at most what fits, and assumed at "
            "least half of it"
        )
    else:
        yield "its launches are not in the recording: any number of active warps"
    if not samples.is_whole:
        yield (
            "not all launches are in the recording: the others are taken to be alike, and samples "
            "do not count cycles"
        )
    elif samples.seconds and samples.period_cycles and not fits_time(samples, chip):
        yield "more samples than one of each SM and period: they do not count cycles"
