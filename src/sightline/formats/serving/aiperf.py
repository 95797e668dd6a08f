"""Results of NVIDIA's AIPerf and GenAI-Perf (profile_export_aiperf.json, _genai_perf.json).

Each metric is an object with its unit, its average and percentiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.formats._asked_names import AskedNames
from sightline.formats._text_damage import count_misspelt, is_near_name
from sightline.formats.serving._requests import (
    import_serving,
    make_stat,
    note_left_out,
    read_documents,
    read_number,
)

IMPORTER = Importer(
    name="aiperf",
    label="AIPerf or GenAI-Perf",
    strong=(
        rb'^\s*\{(?:[^{}]|\{[^{}]*\}){0,4000}?"(?:request_throughput|request_latency)"\s*:\s*'
        rb'\{[^{}]{0,200}"unit"\s*:',
    ),
    weak=(),
    looks_like='JSON with "request_latency": {"unit": "ms", "avg": ...}',
    suffixes=(".json",),
    version=5,
    source="https://github.com/ai-dynamo/aiperf",
)

_METRICS = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "itl",
    "request_latency": "latency",
    "request_throughput": "request_rate",
    "output_token_throughput": "output_rate",
    "input_sequence_length": "input_tokens",
    "output_sequence_length": "output_tokens",
    "benchmark_duration": "duration",
    "request_count": "completed",
}
_UNITS = {"requests/sec": "1/s", "tokens/sec": "tokens/s", "sec": "s"}
_TOTALS = ("request_rate", "output_rate", "duration", "completed")
_STATISTICS = ("unit", "avg", "min", "max", "std", "p50", "p90", "p95", "p99")
_STATISTIC = re.compile(r"^(?:avg|min|max|p\d{1,2}(?:\.\d+)?)$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all statistics. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    asked = AskedNames()
    documents = [d for d in read_documents(source, notes, asked) if isinstance(d, dict)]
    stats = [row for n, document in enumerate(documents) for row in _list_stats(document, n)]
    notes += note_left_out(*_sum_pairs(map(_count_left_out, documents)))
    asked.note(notes)
    version = documents[0].get("aiperf_version") if documents else None
    tool = "AIPerf" if isinstance(version, str) else "GenAI-Perf"
    told = version[:20] if isinstance(version, str) else None
    return import_serving(source, tool, [], stats, notes, told)


def _list_stats(document: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    for key, metric in _METRICS.items():
        found = document.get(key)
        if not isinstance(found, dict):
            continue
        unit = str(found.get("unit") or "")[:20]
        for name, value in found.items():
            if _STATISTIC.match(name):
                plain = "total" if metric in _TOTALS else name.replace("avg", "mean")
                yield from make_stat(metric, plain, value, _UNITS.get(unit, unit), number)


def _count_left_out(document: dict[str, Any]) -> tuple[int, int]:
    """How many names are nearly those of metrics or statistics, and how many values are none."""
    names = count_misspelt(list(document), _METRICS)
    values = 0
    for key in _METRICS:
        found = document.get(key)
        if key in document and not isinstance(found, dict | None):
            values += 1
        elif isinstance(found, dict):
            odd = [name for name in found if not _STATISTIC.match(name)]
            needed = {"unit", "avg"} - {*found}
            missing = {*_STATISTICS} - {*found}
            near = sum(any(is_near_name(name, one) for one in missing) for name in odd)
            names += max(count_misspelt(odd, missing), near) or len(needed)
            values += sum(
                value is not None and read_number(value) is None
                for name, value in found.items()
                if _STATISTIC.match(name)
            )
    return names, values


def _sum_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    listed = list(pairs)
    return sum(first for first, _ in listed), sum(second for _, second in listed)
