"""What samples of GPUs come to: energy with its error bar, means, and what limited them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sightline.core.units import format_several
from sightline.record.nvml.sampling import LIMITING, REASONS, Sampler, Series


def measure_energy(
    readings: list[tuple[int, float]], power: list[tuple[int, float]]
) -> dict[str, float]:
    """Energy in J from the counter, its error bar, and the integral of the power beside it.

    The counter moves in jumps. Each end of the interval may be wrong by one jump, so the error bar
    is twice the longest time between two changes, at the highest power seen. The sensor's own
    accuracy, 5 % (NVML API reference, nvmlDeviceGetPowerUsage), is not in it. A counter that was
    reset gives no energy: what it counted before that is not known.
    """
    answer: dict[str, float] = {}
    if len(readings) > 1 and not is_reset(readings):
        answer["energy_j"] = readings[-1][1] - readings[0][1]
        changes = [b[0] for a, b in pairwise(readings) if b[1] != a[1]]
        edges = [readings[0][0], *changes, readings[-1][0]]
        longest = max(b - a for a, b in pairwise(edges))
        if power:
            answer["energy_error_j"] = 2 * longest / 1e9 * max(v for _, v in power)
    if len(power) > 1:
        answer["energy_by_power_j"] = sum(
            (b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in pairwise(power)
        )
    return answer


def is_reset(readings: list[tuple[int, float]]) -> bool:
    """Whether a counter went back."""
    return any(b < a for (_, a), (_, b) in pairwise(readings))


def list_unread(device: Series) -> dict[str, str]:
    """Why metrics were not read, or not always, by the metric; `all` for the whole device."""
    if device.problem is not None:
        return {"all": device.problem}
    answer = {
        metric: ", ".join(
            why if metric in device.refused else f"{why} ({format_several(count, 'time')})"
            for why, count in counts.items()
        )
        for metric, counts in device.failures.items()
    }
    if is_reset(device.readings.get("energy [J]", [])):
        answer["energy_j"] = "the counter was reset"
    return answer


def summarize_samples(sampler: Sampler) -> list[dict[str, Any]]:
    """One dict per device: means, extremes, energy, and the share of samples that were limited.

    `not_read` is there where something could not be read, and says why; `lost_after_s` where a
    device stopped to answer.
    """
    answer = []
    for index, device in enumerate(sampler.devices):
        row: dict[str, Any] = {"device": index, "name": device.name}
        for metric, values in device.readings.items():
            if metric in ("energy [J]", "clock event reasons [bits]"):
                continue
            numbers = [v for _, v in values]
            row[metric] = {
                "mean": sum(numbers) / len(numbers),
                "min": min(numbers),
                "max": max(numbers),
                "samples": len(numbers),
            }
        row.update(
            measure_energy(
                device.readings.get("energy [J]", []), device.readings.get("power [W]", [])
            )
        )
        bits = [int(v) for _, v in device.readings.get("clock event reasons [bits]", [])]
        if bits:
            row["limited_pct"] = {
                text: 100 * sum(1 for b in bits if b & bit) / len(bits)
                for bit, text in REASONS.items()
                if bit & LIMITING and any(b & bit for b in bits)
            }
        unread = list_unread(device)
        if unread:
            row["not_read"] = unread
        if device.lost_ns is not None:
            row["lost_after_s"] = (device.lost_ns - sampler.began) / 1e9
        answer.append(row)
    return answer


def describe_unread(summary: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What could not be read of the devices that `summarize_samples` tells: severity, sentence."""
    said = []
    alike: dict[tuple[str, str], list[int]] = {}
    for row in summary:
        unread, device = row.get("not_read", {}), row["device"]
        why = unread.get("all")
        if why is None:
            for metric, reason in unread.items():
                alike.setdefault((metric, reason), []).append(device)
        elif "lost_after_s" in row:
            since = f"{row['lost_after_s']:.1f} s after the first reading"
            said.append(("warning", f"GPU {device} was not read from {since} on: {why}"))
        else:
            said.append(("warning", f"GPU {device} could not be reached ({why}): it was not read"))
    for (metric, reason), devices in alike.items():
        of = "GPU " + ", ".join(map(str, devices))
        if metric == "energy_j":
            text = f"{of}: its energy over the whole run is not known: {reason}"
            said.append(("warning", text))
        else:
            said.append(("info", f"{of}: NVML did not give {metric} ({reason})"))
    return said
