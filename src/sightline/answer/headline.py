"""The answer in one sentence: where the time went, and the largest gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.answer.price_words import write_price
from sightline.core.units import (
    format_bytes,
    format_count,
    format_hours,
    format_joules,
    format_ns,
    format_pct,
    format_several,
)

if TYPE_CHECKING:
    from sightline.answer.answer import Answer


def write_headline(answer: Answer) -> str:
    """One or two sentences from the answer."""
    judged = answer.judged
    rows = answer.breakdown
    if not rows:
        if answer.profiled_kernels:
            count = answer.counts["profiled_kernels"]
            if count == 1:
                return "One kernel launch was profiled; there is no timeline."
            return (
                f"{format_count(count)} kernel launches were profiled, one by one; there is "
                "no timeline."
            )
        if answer.host_breakdown:
            return _write_host(answer, judged)
        if answer.counts.get("host_ops"):
            return "No GPU operations were recorded; this report covers the CPU only."
        full = [row for row in answer.memory if row["peak_bytes"]]
        if full:
            most = max(full, key=lambda row: row["peak_bytes"])
            where = "the host" if most["device_id"] is None else f"GPU {most['device_id']}"
            first = f"{format_bytes(most['peak_bytes'])} were allocated on {where} at the peak."
            return f"{first} {judged[0]['summary']}" if judged else first
        if answer.use["devices"]:
            first = _describe_use(answer.use["devices"])
            return f"{first} {judged[0]['summary']}" if judged else first
        return "The recording has no timeline."
    shares = [row["compute_pct"] for row in rows]
    low, high = format_pct(min(shares)), format_pct(max(shares))
    if len(rows) == 1:
        first = f"The GPU computes for {low} of the window"
    elif low == high:
        first = f"Each of the {len(rows)} GPUs computes for {low} of its window"
    else:
        first = f"The {len(rows)} GPUs compute for {low} to {high} of their windows"
    if answer.gains:
        best = answer.gains[0]
        price = ", ".join(write_price(best, rows)[:-1])
        return f"{first}. {best['title']}: {price}."
    if judged:
        return f"{first}. {judged[0]['summary']}"
    return f"{first}. No rule found a problem."


def describe_run(answer: Answer) -> list[str]:
    """What was recorded: tools, devices, window, how much."""
    recordings, devices = answer.recordings, answer.devices
    parts = [", ".join(sorted({r["tool"] or r["format"] for r in recordings}))]
    if len(recordings) > 1:
        parts.append(f"{len(recordings)} recordings")
    if devices:
        kinds = sorted({d["name"] or "GPU of unknown name" for d in devices})
        parts.append(f"{len(devices)} × {', '.join(kinds)}")
    if answer.window:
        lengths = [w["window_end_ns"] - w["window_start_ns"] for w in answer.window]
        low, high = format_ns(min(lengths)), format_ns(max(lengths))
        span = low if low == high else f"{low} to {high}"
        parts.append(f"window {span} ({answer.window[0]['window']})")
        parts.append(f"{format_count(answer.counts['device_ops'])} GPU operations")
    if answer.counts.get("host_ops"):
        parts.append(f"{format_count(answer.counts['host_ops'])} CPU ranges")
    return parts


def label_device(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """'rank 3', with the device where a rank has several."""
    several = len({(r["rank"], r["device_id"]) for r in rows}) > len({r["rank"] for r in rows})
    return f"rank {row['rank']}" + (f" · GPU {row['device_id']}" if several else "")


def _write_host(answer: Answer, judged: list[dict[str, Any]]) -> str:
    largest = max(answer.host_breakdown, key=lambda row: row["window_pct"])
    share = format_pct(largest["window_pct"])
    first = (
        f"No GPU operations were recorded. {share} of the main thread's time is {largest['part']}."
    )
    return f"{first} {judged[0]['summary']}" if judged else first


def _describe_use(devices: list[dict[str, Any]]) -> str:
    """How many GPUs a monitor watched, for how long, and how many joules they used."""
    times = [row[name] or 0 for row in devices for name in ("sampled_ns", "measured_ns")]
    watched = f"{format_several(len(devices), 'GPU')} watched for {format_hours(max(times))}"
    joules = [row["energy_j"] for row in devices if row["energy_j"] is not None]
    return f"{watched}: {format_joules(sum(joules))} in all." if joules else f"{watched}."
