"""Hours, shares and owners as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

from sightline.core.text import fit_text, make_printable

KWH = 3.6e6


def write_hours(hours: float | None) -> str:
    """'1,234', '12.3', '0.4'; '-' where there is none."""
    if not hours:
        return "-"
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:,.1f}" if hours >= 0.05 else "<0.1"


def write_share(part: float, whole: float) -> str:
    """'33 %'."""
    if not whole or not part:
        return ""
    pct = 100 * part / whole
    return "<1 %" if pct < 0.5 else f"{pct:.0f} %"


def write_pct(pct: float | None) -> str:
    """'42', or '-' where it is not known."""
    return "-" if pct is None else f"{pct:.0f}"


def write_energy(joules: float | None) -> str:
    """'41 kWh'; "" where it is not known."""
    if not joules:
        return ""
    kwh = joules / KWH
    return f"{kwh:,.0f} kWh" if kwh >= 10 else f"{kwh:.1f} kWh" if kwh >= 0.05 else "<0.1 kWh"


def write_length(ns: int | None) -> str:
    """'3-02:15' of days, '02:15:00' of hours."""
    if ns is None:
        return "-"
    minutes, seconds = divmod(ns // 10**9, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (
        f"{days}-{hours:02d}:{minutes:02d}" if days else f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    )


def write_time(ns: int | None) -> str:
    """'2026-01-31 10:00', UTC."""
    if ns is None:
        return "-"
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "-"


def fit(text: str | None, width: int) -> str:
    """A text of other people in a column, without what moves a terminal."""
    return fit_text(make_printable(text or "-"), width)


def draw_bar(pct: float, width: int) -> str:
    """How full something is: '[|||||     42%]', as Jobstats draws it."""
    figure = f"{pct:.0f}%"
    full = min(round(pct / 100 * width), width)
    bar = ("|" * full).ljust(width)
    return f"[{bar[: width - len(figure)]}{figure}]"
