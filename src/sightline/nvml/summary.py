"""What samples of GPUs come to: energy with its error bar, means, and what limited them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sightline.nvml.sampling import LIMITING, REASONS, Sampler


def measure_energy(
    readings: list[tuple[int, float]], power: list[tuple[int, float]]
) -> dict[str, float]:
    """Energy in J from the counter, its error bar, and the integral of the power beside it.

    The counter moves in jumps. Each end of the interval may be wrong by one jump, so the error bar
    is twice the longest time between two changes, at the highest power seen. The sensor's own
    accuracy, 5 % (NVML API reference, nvmlDeviceGetPowerUsage), is not in it.
    """
    answer: dict[str, float] = {}
    if len(readings) > 1:
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


def summarize_samples(sampler: Sampler) -> list[dict[str, Any]]:
    """One dict per device: means, extremes, energy, and the share of samples that were limited."""
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
        answer.append(row)
    return answer
