"""What torch.profiler's export_memory_timeline writes: how many bytes of each category there are.

`.raw.json.gz` lists time in ns (-1 for what was there before), action, change in bytes and
category; `.json` has times in us, and for each the bytes of every category. `.html` is a picture.
None of them has addresses or call stacks, or says which device it is of. What the numbers mean:
torch/profiler/_memory_profiler.py (MemoryProfileTimeline).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._stacks import read_text

IMPORTER = Importer(
    name="torch_memory_timeline",
    label="PyTorch memory timeline",
    strong=(
        rb"^\[\[-?\d+, [1-4], -?\d+, [0-7]\]",
        rb"^\[\[\d{10,19}(?:, \d{10,19})*(?:\], \[\[0(?:, \d+){8}\]|,? ?\d*\Z)",
        rb"<title>GPU Memory Timeline HTML</title>",
    ),
    weak=(),
    looks_like="a list of [time, action, bytes, category], or of times and of bytes by category",
    suffixes=(".raw.json.gz", ".json", ".html"),
    version=2,
    source="https://docs.pytorch.org/docs/stable/profiler.html",
)

# The order of _CATEGORY_TO_COLORS; the last one is of memory that no tensor is known for.
_KINDS = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient",
    "autograd detail", "unknown",
)  # fmt: skip
_MOST_BYTES = 1 << 50  # no device has more


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the changes of all categories. Raises DamagedError where there are none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    if text.lstrip()[:1] == "<":
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is a page with a picture of the memory, and holds no numbers",
            hint="prof.export_memory_timeline('memory.raw.json.gz', device='cuda:0')",
        )
    try:
        document = parse_json(text, quality)
        rows, bad = _read_raw(document) if _is_raw(document) else _read_sampled(document)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not a complete memory timeline ({error!r})"
        ) from error
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete entry")
    if bad:
        quality.append(Quality("damaged_entries", "warning", "entries could not be read", bad))
    text = "the file does not say which device it is of; shown as GPU 0"
    quality.append(Quality("device_unknown", "info", text))
    frame = _make_events(rows)
    return Imported(
        {"memory_events": frame}, Recording("PyTorch profiler", clock_offset_ns=0), quality
    )


def _is_raw(document: Any) -> bool:
    return len(document[0]) == 4 and not isinstance(document[-1][0], list)


def _is_size(value: Any) -> bool:
    return type(value) is int and -_MOST_BYTES <= value <= _MOST_BYTES


def _read_raw(document: Any) -> tuple[list[tuple[int, int, str]], int]:
    """Time in ns, change in bytes and kind of each entry, and how many entries are damaged."""
    whole = [
        entry
        for entry in document
        if isinstance(entry, list)
        and len(entry) == 4
        and type(entry[0]) is int
        and abs(entry[0]) <= INT64_MAX
        and _is_size(entry[2])
        and type(entry[3]) is int
        and 0 <= entry[3] < len(_KINDS)
    ]
    first = min((entry[0] for entry in whole if entry[0] >= 0), default=0)
    rows = [(max(t, first), change, _KINDS[kind]) for t, _, change, kind in whole]
    return rows, len(document) - len(whole)


def _read_sampled(document: Any) -> tuple[list[tuple[int, int, str]], int]:
    """As `_read_raw`, from the sums of each moment."""
    times, sums = document
    rows, bad = [], abs(len(times) - len(sums))
    last = [0] * len(_KINDS)
    for time, entry in zip(times, sums, strict=False):
        # A 0 comes before the categories.
        now = entry[1:] if isinstance(entry, list) else []
        is_time = type(time) is int and 0 <= time <= INT64_MAX // 1000
        if not is_time or len(now) != len(_KINDS) or not all(map(_is_size, now)):
            bad += 1
            continue
        rows += [
            (time * 1000, new - old, kind) for old, new, kind in zip(last, now, _KINDS, strict=True)
        ]
        last = now
    return rows, bad


def _make_events(rows: list[tuple[int, int, str]]) -> pl.DataFrame:
    """Allocations and frees with the sum after each; what frees comes first of one moment."""
    change = pl.col("change")
    return (
        pl.DataFrame(
            [row for row in rows if row[1]],
            schema={"time_ns": pl.Int64, "change": pl.Int64, "name": pl.String},
            orient="row",
        )
        .with_columns(
            device_id=pl.lit(0, pl.Int64),
            memory_kind=pl.lit("device"),
            action=pl.when(change > 0).then(pl.lit("alloc")).otherwise(pl.lit("free")),
            bytes=change.abs(),
            allocated_bytes=change.cum_sum(),
        )
        .drop("change")
    )
