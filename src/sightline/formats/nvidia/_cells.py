"""Figures in the CSV of NVIDIA's profilers, which choose the units of times and sizes."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sightline.core.units import INT64_MAX

_LONGEST = 40


def scale_figure(text: str, factor: int) -> int | None:
    """A figure times its unit's factor, rounded half to even from its digits; None for none."""
    if not text or len(text) > _LONGEST:
        return None
    try:
        value = Decimal(text) * factor
    except InvalidOperation:
        return None
    return int(value.to_integral_value()) if value.is_finite() and 0 <= value <= INT64_MAX else None
