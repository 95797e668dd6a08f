"""What a finding costs and gains, and where it is, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.core.registry import OF_JOBS, OF_WINDOW
from sightline.core.units import format_bytes, format_hours, format_joules, format_ns, format_pct
from sightline.diagnosis.price import share_of
from sightline.diagnosis.ranking import OUTSIDE, SEGMENT

# What a person reads before a finding's advice, by the name of its field.
LABELS = {"fix": "Fix", "verify": "Check"}


def name_whole(found: Mapping[str, Any], *, has_timeline: bool) -> str:
    """What a finding's cost is a share of: 'the window', 'the recording', 'the memory' ..."""
    if found["where"].get(SEGMENT) == OUTSIDE:
        return "the recording"
    return share_of(found["rule"], has_timeline=has_timeline)


def write_price(found: Mapping[str, Any], breakdown: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a finding costs, what fixing it gains, how sure that is: each with time and share.

    `found` is a finding as plain data, `breakdown` the devices' rows; shares are of the window
    where nothing else is said.
    """
    whole = name_whole(found, has_timeline=bool(breakdown))
    of = "" if whole == OF_WINDOW else f" of {whole}"
    # Jobs take hours on many GPUs or cores; nothing else takes as long.
    write_time = format_hours if whole == OF_JOBS else format_ns
    cost, cost_pct = found["cost_ns"], found["cost_pct"]
    gain, gain_pct = found["gain_ns"], found["gain_pct"]
    parts = []
    if cost:
        over = f" over {len(breakdown)} GPUs" if len(breakdown) > 1 and not of else ""
        share = "" if cost_pct is None else f" ({format_pct(cost_pct)}{of})"
        parts.append(f"costs {write_time(cost)}{over}{share}")
    if gain:
        share = "" if gain_pct is None else f" ({format_pct(gain_pct)})"
        saved = f"{write_time(gain)}{share}"
        # One figure is enough where they are the same.
        is_all = bool(cost) and saved in (parts[-1].removeprefix("costs "), write_time(cost))
        parts.append(f"could save {'all of it' if is_all else f'up to {saved}'}")
    elif gain is not None and cost:
        parts.append("fixing it alone saves nothing")
    if found.get("cost_bytes"):
        share = "" if cost_pct is None else f" ({format_pct(cost_pct)}{of})"
        parts.append(f"takes {format_bytes(found['cost_bytes'])}{share}")
    if found.get("gain_bytes"):
        share = "" if gain_pct is None else f" ({format_pct(gain_pct)})"
        parts.append(f"could free up to {format_bytes(found['gain_bytes'])}{share}")
    if found.get("cost_j"):
        share = "" if cost_pct is None else f" ({format_pct(cost_pct)}{of})"
        parts.append(f"takes {format_joules(found['cost_j'])}{share}")
    if found.get("gain_j"):
        share = "" if gain_pct is None else f" ({format_pct(gain_pct)})"
        parts.append(f"could save up to {format_joules(found['gain_j'])}{share}")
    return [*parts, f"{found['confidence']} confidence"]


def has_gain(found: Mapping[str, Any]) -> bool:
    """Whether a finding, as plain data, says what its fix gains: else it is a remark."""
    return bool(found["gain_ns"] or found.get("gain_bytes") or found.get("gain_j"))


def label_device(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """'rank 3', with the device where a rank has several."""
    several = len({(r["rank"], r["device_id"]) for r in rows}) > len({r["rank"] for r in rows})
    return f"rank {row['rank']}" + (f" · GPU {row['device_id']}" if several else "")
