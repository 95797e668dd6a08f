"""What torch.cuda.memory_stats() counts, saved as JSON: sums now and at most, of one device.

Flat (`"allocated_bytes.all.peak": 1024`) or nested, as memory_stats_as_nested_dict() gives it.
There are no events: the peaks, which need not be of one moment, stand as a first event, and the
sums of the moment of saving as a second. Every other number is a row of `memory_settings`.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._stacks import read_text

IMPORTER = Importer(
    name="torch_memory_stats",
    label="PyTorch memory statistics",
    strong=(
        rb'^\{[\s\S]*"(?:allocated_bytes|reserved_bytes|active_bytes)\.(?:all|small_pool|large_pool)'
        rb'\.(?:current|peak|allocated|freed)"\s*:',
        rb'^\{[\s\S]*"(?:allocated_bytes|reserved_bytes|active_bytes)"\s*:\s*\{\s*'
        rb'"(?:all|small_pool|large_pool)"\s*:\s*\{',
    ),
    weak=(),
    looks_like='JSON with "allocated_bytes.all.peak"',
    suffixes=(".json", ".json.gz"),
    version=3,
    source="https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html",
)

_MOMENTS = ("peak", "current")
_SUMS = (".current", ".peak", ".allocated", ".freed")
_DEEPEST = 8


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all counts. Raises DamagedError where what is allocated is not among them."""
    quality: list[Quality] = []
    try:
        counts = _flatten(parse_json(read_text(source, quality), quality))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not complete JSON ({error})"
        ) from error
    # Each sum is told of four moments.
    told = Counter(name.rpartition(".")[0] for name in counts if name.endswith(_SUMS))
    if missing := sum(len(_SUMS) - count for count in told.values()):
        text = (
            "numbers of sums are missing, though the statistics hold other numbers of the same sums"
        )
        quality.append(Quality("missing_values", "warning", text, missing))
    names = ("allocated_bytes", "active_bytes", "reserved_bytes")
    events = [{name: counts.get(f"{name}.all.{moment}") for name in names} for moment in _MOMENTS]
    if all(event["allocated_bytes"] is None for event in events):
        raise DamagedError(
            f"cannot read {source.given}", why="allocated_bytes.all is missing or no number"
        )
    text = "peaks of different sums need not be of one moment; the device's number is not recorded"
    quality.append(Quality("peaks_without_time", "info", text))
    frame = pl.DataFrame(events, schema=dict.fromkeys(names, pl.Int64)).with_columns(
        time_ns=pl.int_range(pl.len(), dtype=pl.Int64),
        device_id=pl.lit(0, pl.Int64),
        action=pl.lit("snapshot"),
        memory_kind=pl.lit("device"),
    )
    settings = pl.DataFrame(
        {"name": list(counts), "value": [json.dumps(value) for value in counts.values()]},
        schema={"name": pl.String, "value": pl.String},
    )
    tables = {"memory_events": frame, "memory_settings": settings}
    return Imported(tables, Recording("PyTorch memory statistics", clock_offset_ns=0), quality)


def _flatten(document: Any, before: str = "", depth: int = 0) -> dict[str, int]:
    """Numbers by their names, nested ones joined by dots."""
    if depth > _DEEPEST or not isinstance(document, dict):
        return {}
    found: dict[str, int] = {}
    for key, value in document.items():
        name = f"{before}.{key}" if before else str(key)
        if isinstance(value, dict):
            found |= _flatten(value, name, depth + 1)
        elif type(value) is int and 0 <= value <= INT64_MAX:
            found[name] = value
    return found
