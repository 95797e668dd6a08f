"""Exposed transfers, and what the host waits for behind them."""

from sightline.registry import Family

FAMILY = Family("copies", "Copies and memsets")
