"""The part of the screen that shows what GPUs were used for, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text
from sightline.core.units import format_hours, format_joules

_MOST_GPUS, _MOST_EVENTS = 16, 10


def print_devices(rows: list[dict[str, Any]]) -> Iterator[Text]:
    """A line for each GPU: nvidia-smi's figure, the true ones, power, joules, lowered clocks."""
    if not rows:
        return
    heads = f"{'smi':>6}{'SM':>7}{'pipe':>14}{'DRAM':>7}{'power':>9}{'energy':>18}{'limited':>12}"
    yield Text(f"{'GPU':<7}{heads}", "bold")
    several = len({row["rank"] for row in rows}) > 1
    for row in rows[:_MOST_GPUS]:
        name = f"{row['rank']}/{row['device_id']}" if several else f"{row['device_id']}"
        watts = row["power_w"]
        yield Text(
            f"{name:<7}{_share(row['utilization_pct']):>6}{_share(row['sm_active_pct']):>7}"
            f"{_pipe(row):>14}{_share(row['dram_active_pct']):>7}"
            f"{'-' if watts is None else f'{watts:.0f} W':>9}{_energy(row):>18}{_limited(row):>12}"
        )
    if len(rows) > _MOST_GPUS:
        yield Text(f"… {len(rows) - _MOST_GPUS} more: sightline stats device_use", "dim")
    idle = _span([row["idle_power_w"] for row in rows], "W")
    end = _span([row["temperature_end_c"] for row in rows], "C")
    begin = _span([row["temperature_start_c"] for row in rows], "C")
    facts = [f"idle {idle}"] if idle else []
    facts += [f"{begin} at the beginning, {end} at the end"] if end else []
    if facts:
        yield Text(f"{'':<7}{' · '.join(facts)}", "dim")
    yield from _write_spans(rows)


def _write_spans(rows: list[dict[str, Any]]) -> Iterator[Text]:
    """For how long the GPUs were watched, and of how much of that there are joules."""
    watched = max(row["sampled_ns"] or 0 for row in rows)
    measured = max(row["measured_ns"] or 0 for row in rows)
    parts = [f"watched for {format_hours(watched)}"] if watched else []
    parts += [f"energy of {format_hours(measured)}"] if measured else []
    if parts:
        yield Text(f"{'':<7}{', '.join(parts)}", "dim")


def _share(pct: float | None) -> str:
    return "-" if pct is None else f"{pct:.0f} %" if pct >= 1 or pct == 0 else "<1 %"


def _pipe(row: dict[str, Any]) -> str:
    if row["pipe_pct"] is None:
        return "-"
    return f"{row['pipe'].removesuffix(' pipe')} {_share(row['pipe_pct'])}"


def _energy(row: dict[str, Any]) -> str:
    """Joules, with half of the distance of their bounds; where that is more, the upper one."""
    joules = row["energy_j"]
    if joules is None:
        return "-"
    half = 50 * (row["high_j"] - row["low_j"]) / joules if joules else 0.0
    if half >= 100:
        return f"≤ {format_joules(row['high_j'])}"
    return f"{format_joules(joules)} ±{'<0.1' if 0 < half < 0.05 else f'{half:.1f}'}%"


def _limited(row: dict[str, Any]) -> str:
    """What held the clocks down for longest, and for which share of the time."""
    parts = {"power": row["power_limited_pct"], "heat": row["heat_limited_pct"]}
    known = {why: pct for why, pct in parts.items() if pct is not None}
    if not known:
        return "-"
    why = max(known, key=lambda name: known[name])
    return f"{why} {_share(known[why])}" if known[why] else "no"


def _span(values: list[float | None], unit: str) -> str:
    """'75 W', '71 to 80 W', or '' where nothing is known."""
    known = [f"{value:.0f}" for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known, key=float), max(known, key=float)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def print_events(rows: list[dict[str, Any]]) -> Iterator[Text]:
    """What happened to GPUs and the host, a line each, the first time that it did."""
    if not rows:
        return
    yield Text("What happened (UTC)", "bold")
    for row in rows[:_MOST_EVENTS]:
        place = "host" if row["device_id"] is None else f"GPU {row['device_id']}"
        often = f" ({row['count']} times)" if row["count"] > 1 else ""
        known = datetime.fromtimestamp(row["first_ns"] // 10**9, UTC)
        at = f"{known:%Y-%m-%d %H:%M:%S}" if row["first_ns"] else f"{'(time not said)':<19}"
        said = f"{row['text'] or row['event']}{often}"
        yield Text(f"{at}  {place:<7}{fit_text(said, 51)}")
    if len(rows) > _MOST_EVENTS:
        more = len(rows) - _MOST_EVENTS
        yield Text(f"""… {more} more: sightline sql RUN "FROM device_events\"""", "dim")
