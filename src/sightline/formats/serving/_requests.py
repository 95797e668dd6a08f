"""What the readers of benchmarks share: requests and statistics as rows, numbers within bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._asked_names import AskedNames
from sightline.formats._stacks import note_bad_lines, read_whole
from sightline.formats._text_damage import note_foreign_bytes, note_names


def read_documents(source: Source, notes: list[Quality], names: AskedNames) -> list[Any]:
    """A file of JSON, or of one document a line (SGLang), as far as it is whole.

    `names` learns which names its objects are asked for. Raises DamagedError where nothing is.
    """
    data = read_whole(source, notes)
    notes += note_foreign_bytes(data)
    text = data.decode("utf-8", errors="replace")
    try:
        return [json.loads(text, object_pairs_hook=names.hook)]
    except (ValueError, RecursionError):
        found, bad = [], 0
    for line in text.splitlines():
        try:
            found.append(json.loads(line, object_pairs_hook=names.hook))
        except (ValueError, RecursionError):
            bad += bool(line.strip())
    if not found:
        raise DamagedError(f"cannot read {source.given}", why="its JSON is not whole")
    notes += note_bad_lines(bad, "whole JSON documents")
    return found


def note_left_out(names: int, values: int) -> list[Quality]:
    """The notes on names that are nearly the tool's, and on values of its names that are none."""
    notes = note_names(names)
    if values:
        text = "values are not numbers where the tool writes one: they were left out"
        notes.append(Quality("damaged_values", "warning", text, values))
    return notes


def read_number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def read_count(value: Any) -> int | None:
    """A count, or None."""
    number = read_number(value)
    return None if number is None or not 0 <= number < INT64_MAX else int(number)


def read_ns(value: Any, scale: float = 1e9) -> int | None:
    """A time in ns, of one in seconds unless the scale says otherwise; None beyond 64 bits."""
    number = read_number(value)
    if number is None or abs(number * scale) >= INT64_MAX:
        return None
    return round(number * scale)


def read_times(value: Any, scale: float = 1e9) -> list[int]:
    """A list of times in ns, without what is none."""
    values = value if isinstance(value, list) else []
    return [ns for one in values if (ns := read_ns(one, scale)) is not None and ns >= 0]


def make_request(
    start: Any = None,
    ttft: Any = None,
    itl: Any = None,
    latency: Any = None,
    prompt: Any = None,
    output: Any = None,
    queue: Any = None,
    status: str = "completed",
    scale: float = 1e9,
) -> dict[str, Any]:
    """A row of served_requests from what a benchmark says of one, times as the scale says.

    Where the latency is not said it is the sum of the first token's and those behind it.
    """
    begin, first = read_ns(start), read_ns(ttft, scale)
    gaps = read_times(itl, scale)
    whole = read_ns(latency, scale)
    if whole is None and first is not None and gaps:
        whole = first + sum(gaps)
    if whole is None or not 0 <= whole < INT64_MAX // 2:
        whole = None
    end = None
    if begin is not None and whole is not None and abs(begin) < INT64_MAX // 2:
        end = begin + whole
    return {
        "start_ns": begin,
        "end_ns": end,
        "ttft_ns": first if first is not None and first >= 0 else None,
        "itl_ns": gaps,
        "latency_ns": whole,
        "queue_ns": read_ns(queue, scale),
        "prompt_tokens": read_count(prompt),
        "output_tokens": read_count(output),
        "status": status,
    }


def make_stat(
    metric: str, statistic: str, value: Any, unit: str, benchmark: int = 0
) -> list[dict[str, Any]]:
    """A row of serving_stats, or none where the value is not a number."""
    number = read_number(value)
    if number is None:
        return []
    return [
        {
            "benchmark": benchmark,
            "metric": metric,
            "statistic": statistic,
            "value": number,
            "unit": unit,
        }
    ]


def import_serving(
    source: Source,
    tool: str,
    requests: Sequence[Mapping[str, Any]],
    stats: Sequence[Mapping[str, Any]],
    notes: list[Quality],
    version: str | None = None,
) -> Imported:
    """The tables. Raises DamagedError where there is neither a request nor a statistic."""
    if not requests and not stats:
        raise DamagedError(
            f"cannot read {source.given}", why="it holds no request and no statistic of one"
        )
    rows = [{"request_id": n, **row} for n, row in enumerate(requests)]
    tables = {
        name: _make_table(name, found)
        for name, found in (("served_requests", rows), ("serving_stats", list(stats)))
        if found
    }
    return Imported(tables, Recording(tool, version, of_host=True), notes)


def _make_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    schema = {c.name: c.dtype for c in load_table(name).stored}
    return pl.DataFrame(list(rows), schema=schema, orient="row")
