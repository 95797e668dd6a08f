"""Verdicts of other checkers as `device_events`: what passed, failed, warned or was skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from sightline.core.text import make_printable

PASSED, WARNED, FAILED, SKIPPED = (
    "check-passed",
    "check-warning",
    "check-failed",
    "check-skipped",
)
_MOST_TEXT = 300


class CheckEvent(NamedTuple):
    """One verdict: when (ns; 0: not said), what came out, of which check, of which GPU, and why."""

    time_ns: int
    event: str
    name: str
    device: int | None
    text: str


# Words of what came out; what a person reads names the check, too.
_WORDS = {PASSED: "passed", WARNED: "warns", FAILED: "failed", SKIPPED: "was skipped"}


def _write_text(one: CheckEvent) -> str:
    """`check_ecc failed: SRAM errors`."""
    text = make_printable(one.text).strip()
    words = f"{make_printable(one.name)} {_WORDS[one.event]}"
    return (f"{words}: {text}" if text else words)[:_MOST_TEXT]


def make_check_tables(events: Sequence[CheckEvent]) -> dict[str, pl.DataFrame]:
    """`device_events` of them; the check's name is the source."""
    rows = [
        {
            "time_ns": one.time_ns,
            "event": one.event,
            "device_id": one.device,
            "source": make_printable(one.name)[:_MOST_TEXT],
            "text": _write_text(one),
        }
        for one in events
    ]
    schema = {
        "time_ns": pl.Int64,
        "event": pl.String,
        "device_id": pl.Int64,
        "source": pl.String,
        "text": pl.String,
    }
    return {"device_events": pl.DataFrame(rows, schema=schema)}
