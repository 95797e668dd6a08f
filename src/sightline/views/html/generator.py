"""By what a page says of itself a later report knows that it may write over an earlier one."""

from __future__ import annotations

from pathlib import Path

MARK = b'<meta name="generator" content="sightline report">'


def is_ours(target: Path) -> bool:
    """Whether a file is a report that sightline wrote."""
    with target.open("rb") as file:
        return MARK in file.read(4096)
