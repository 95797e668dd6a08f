"""Tables of a profiler in which calls of one name are added up: rows of `call_sums`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX

# What a device's work is, as `category` of `call_sums`.
KERNEL, COPY, FILL, FAULTS = "kernel", "memcpy", "memset", "page faults"
RANGE = "range"  # from its first piece of work to its last: no work of its own
_TIME = re.compile(r"^([\d.]{1,24})\s*(ns|us|µs|ms|s|min|h)?$")
_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9,
       "h": 3600 * 10**9}  # fmt: skip


def read_duration(text: str, unit: str = "ns") -> int | None:
    """A time with its unit, or in `unit`, as ns; None for what is none."""
    found = _TIME.match(text.strip().replace(",", ""))
    if found is None:
        return None
    try:
        ns = float(found[1]) * _NS[found[2] or unit]
    except ValueError:
        return None
    return round(ns) if ns <= INT64_MAX else None


def read_count(text: str) -> int | None:
    """A whole number; None for what is none."""
    plain = text.strip().replace(",", "")
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 19 else None


def note_several(parts: int) -> list[Quality]:
    """That a text holds several runs, of which one is judged."""
    if parts < 2:
        return []
    text = (
        "the text holds several runs: findings are about the last one with work of a GPU, and no "
        "figures of two are added up"
    )
    remedy = "All of them:  sightline stats summed_runs FILE"
    return [Quality("several_runs", "info", text, parts, remedy)]


def import_sums(rows: Iterable[dict[str, Any]], tool: str, notes: list[Quality]) -> Imported:
    """The import of rows of `call_sums`, with the remark that nothing has a time of its own."""
    schema = {c.name: c.dtype for c in load_table("call_sums").stored}
    table = pl.DataFrame(list(rows), schema=schema, orient="row")
    text = "a summary: when anything ran, and what waited for what, is not in it"
    note = Quality("no_timeline", "info", text, None, "Give the recording that it was made of.")
    return Imported({"call_sums": table}, Recording(tool), [*notes, note])
