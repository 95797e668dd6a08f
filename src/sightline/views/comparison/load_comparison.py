"""Two loads of a server against each other on a terminal."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from sightline.core.text import make_printable
from sightline.core.units import format_ns

_NAMES = {
    "ttft": "time to first token",
    "itl": "inter-token latency",
    "tpot": "time per output token",
    "latency": "latency of a request",
    "queue": "time in the queue",
    "output_rate": "output, tokens/s",
    "request_rate": "requests/s",
    "kv_cache": "KV cache in use, %",
    "waiting": "requests waiting",
    "running": "requests running",
    "preemptions": "preemptions",
    "output_tokens": "output tokens",
    "input_tokens": "prompt tokens",
    "iteration": "iteration",
}


def render_loads(data: dict[str, Any], width: int = 80) -> Text:
    """The whole screen: what both sides know, times first."""
    order = list(_NAMES)
    rows = [row for row in data["load"] if row["metric"] in _NAMES]
    rows.sort(key=lambda row: order.index(row["metric"]))
    lines = [
        Text(f"{'Load of the server':<34}{'before':>14}{'after':>14}{'change':>16}", "bold"),
        *map(_write_row, rows),
        Text(),
        Text("One load a side: how much these figures vary by themselves is not known.", "dim"),
    ]
    if not rows:
        return Text("The two sides have no figure of the server's load in common.")
    return Text("\n").join(lines)


def _write_row(row: dict[str, Any]) -> Text:
    label = f"{_NAMES[row['metric']]}, {row['statistic']}"
    before, after = (_write(row[side], row["unit"]) for side in ("before", "after"))
    change = "-" if row["change_pct"] is None else f"{row['change_pct']:+.1f} %"
    return Text(make_printable(f"{label:<34}{before:>14}{after:>14}{change:>16}"))


def _write(value: float, unit: str | None) -> str:
    if unit == "ms":
        return format_ns(round(value * 1e6))
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
