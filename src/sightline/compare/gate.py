"""A gate for CI: conditions on a comparison, and whether they are met."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sightline.compare.statistics import ALPHA
from sightline.compare.verdict import NOT_COMPARABLE, OPEN, SLOWER
from sightline.core.units import format_pct, parse_duration_ns
from sightline.errors import RequestError

_WORDS = {"slower": SLOWER, "inconclusive": OPEN}
_NAMES = ("step_ns", "launches", "peak_memory", "kernel:PATTERN")
_CONDITION = re.compile(
    r"\s*(step_ns|launches|peak_memory|kernel:(?P<pattern>.+?))\s*>\s*"
    r"(?P<limit>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>%|ns|us|µs|ms|s)?\s*"
)


@dataclass(frozen=True)
class Gate:
    """One condition: `limit` is a share of before, %, or an amount where `is_share` is false."""

    text: str
    metric: str
    limit: float
    is_share: bool
    pattern: re.Pattern[str] | None = None


def parse_gate(text: str) -> Gate:
    """A condition such as 'step_ns > 3%', 'kernel:gemm > 50us' or 'slower'. Raises RequestError."""
    if text.strip() in _WORDS:
        return Gate(text, text.strip(), 0.0, is_share=True)
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise RequestError(
            f"--fail-on {text!r} is not a condition",
            why=f"it takes slower, inconclusive, or one of {', '.join(_NAMES)} with a limit",
            hint="For example  --fail-on 'step_ns > 3%'  or  --fail-on 'kernel:gemm > 50us'",
        )
    try:
        pattern = re.compile(match["pattern"]) if match["pattern"] else None
    except re.error as error:
        raise RequestError(f"'{match['pattern']}' is not a pattern", why=str(error)) from error
    is_share = match["unit"] == "%"
    limit = float(match["limit"])
    if match["unit"] and not is_share:
        limit = float(parse_duration_ns(match["limit"] + match["unit"]))
    return Gate(text, "kernel" if pattern else match[1], limit, is_share, pattern)


def judge_gate(gate: Gate, data: dict[str, Any]) -> str | None:
    """Why the gate fails, or None where it does not.

    Times fail only where the change is real: more than runs differ by. What is not comparable
    fails always, as nobody knows what was measured.
    """
    word = data["verdict"]["word"]
    if word == NOT_COMPARABLE:
        return f"{gate.text}: not comparable, because {data['verdict']['reasons'][0]}"
    if gate.metric in _WORDS:
        return f"the verdict is {word}" if word == _WORDS[gate.metric] else None
    if gate.metric == "step_ns":
        real, sides = word == SLOWER, data["step"]
        before, after = sides["before_ns"], sides["after_ns"]
    elif gate.metric == "kernel":
        mine = [row for row in data["pairs"] if _is_named(row, gate)]
        real = any(_is_real(row) for row in mine)
        before, after = (sum(row[k] for row in mine) for k in ("before_ns", "after_ns"))
    else:
        wanted = gate.metric.replace("_", " ")
        found = next((m for m in data["metrics"] if m["metric"] == wanted), None)
        if found is None:
            return f"{gate.text}: a side does not say its {wanted}"
        real, before, after = True, found["before"], found["after"]
    more = after - before
    change = 100 * more / before if before else (100.0 if more else 0.0)
    if not real or (change if gate.is_share else more) <= gate.limit:
        return None
    return f"{gate.text}: it grew by {format_pct(change)}"


def _is_named(row: dict[str, Any], gate: Gate) -> bool:
    assert gate.pattern is not None
    names = [*row["before_names"], *row["after_names"]]
    return row["part"] != "idle" and any(gate.pattern.search(name) for name in names)


def _is_real(row: dict[str, Any]) -> bool:
    if row["kind"] in ("appeared", "vanished"):
        return True
    rate = row["false_discovery_rate"]
    return rate is not None and rate < ALPHA and row["level"] == "runs"
