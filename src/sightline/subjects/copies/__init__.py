"""Exposed transfers, and what the host waits for behind them."""

from sightline.core.registry import Subject

SUBJECT = Subject("copies", "Copies and memsets", in_steps=True)
