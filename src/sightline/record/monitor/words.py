"""What a GPU does, in one sentence, from one round of readings.

nvidia-smi's utilization is the share of time with any kernel running: one block of one kernel makes
it 100 %. What is true of a GPU is how many of its SMs had a warp (SM active), and what those did:
issue to a pipe, or wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sightline.core.units import format_bytes
from sightline.core.xids import describe_recovery
from sightline.record.nvml.sampling import LIMITING, REASONS
from sightline.timeline.use_thresholds import (
    EFFECTIVE_PCT,
    HELD_BYTES,
    IDLE_PCT,
    INEFFECTIVE_PCT,
    TINY_PCT,
    find_busiest_pipe,
)

GOOD, POOR, BAD, QUIET = "good", "poor", "bad", "quiet"
# Nsight Compute's rule on the speed of light: below 60 % neither compute nor memory is the limit.
_HIGH_PCT = 60


class Words(NamedTuple):
    """A sentence, and how good what it says is: good, poor, bad, or quiet where nothing runs."""

    grade: str
    text: str


def describe_gpu(values: Mapping[str, float], missing: Mapping[str, str]) -> Words:
    """What the GPU does. Values by metric, and why others are missing."""
    if not values or "*" in missing:
        xid = f" (XID {values['XID']:.0f})" if values.get("XID") else ""
        return Words(BAD, f"It does not answer: {missing.get('*') or 'no reading'}{xid}.")
    # The driver's own verdict comes first: nothing else that is known of the GPU matters as much.
    recovery = describe_recovery(values.get("recovery action", 0))
    if recovery:
        return Words(BAD, f"{recovery} {_describe_use(values).text}")
    words = _describe_use(values)
    lowered = describe_clocks(values)
    if lowered and words.grade != QUIET:
        return Words(BAD if words.grade == BAD else POOR, f"{words.text} {lowered}")
    return words


def _describe_use(values: Mapping[str, float]) -> Words:
    shown = values.get("GPU utilization")
    active = values.get("SM active")
    if active is None:
        return _describe_without_truth(values, shown)
    sm = f"SM active {active:.0f} %"
    if max(active, shown or 0) <= IDLE_PCT:
        return _describe_idle(values)
    if active < TINY_PCT and (shown or 0) >= EFFECTIVE_PCT:
        text = f"Busy by nvidia-smi, idle in fact: {sm}, a few SMs at a time."
        return Words(BAD, text)
    pipe, most = find_busiest_pipe(values)
    memory = values.get("DRAM active")
    parts = [sm]
    if most is not None:
        parts.append(f"{pipe} {most:.0f} %")
    if memory is not None:
        parts.append(f"DRAM {memory:.0f} %")
    figures = ", ".join(parts)
    if active < INEFFECTIVE_PCT:
        return Words(POOR, f"Mostly idle: {figures}.")
    if max(memory or 0, most or 0) >= _HIGH_PCT:
        limit = "memory bandwidth" if (memory or 0) >= (most or 0) else f"the {pipe}"
        return Words(GOOD, f"Limited by {limit}: {figures}.")
    if active < EFFECTIVE_PCT:
        return Words(POOR, f"Partly used: {figures}.")
    if most is None and memory is None:
        return Words(GOOD, f"Occupied: {figures}; pipe activity is not known.")
    return Words(POOR, f"Occupied but waiting: {figures}.")


def _describe_without_truth(values: Mapping[str, float], shown: float | None) -> Words:
    if shown is None:
        return Words(QUIET, "Its utilization is not known.")
    if shown <= IDLE_PCT:
        return _describe_idle(values)
    text = f"A kernel runs for {shown:.0f} % of the time; how much of the GPU it uses is not known."
    return Words(GOOD if shown >= EFFECTIVE_PCT else POOR, text)


def _describe_idle(values: Mapping[str, float]) -> Words:
    held, power = values.get("memory used", 0), values.get("power")
    at = f" at {power:.0f} W" if power is not None else ""
    if held >= HELD_BYTES:
        return Words(POOR, f"Idle{at}, with {format_bytes(int(held))} of its memory taken.")
    return Words(QUIET, f"Idle{at}.")


def describe_clocks(values: Mapping[str, float]) -> str:
    """Why the clocks are lower than they could be; "" where they are not."""
    bits = int(values.get("clock event reasons", 0))
    reasons = [text for bit, text in REASONS.items() if bits & bit & LIMITING]
    if not reasons:
        return ""
    clock = values.get("SM clock")
    at = f" to {clock:.0f} MHz" if clock is not None else ""
    return f"Clocks lowered{at}: {', '.join(reasons)}."
