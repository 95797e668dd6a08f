"""Results of GuideLLM: NAME-benchmarks.json, a benchmark for each load, with samples of requests.

Of each metric the statistics of completed requests are read; `requests` holds as many requests as
--sample-requests asked for, so that percentiles are GuideLLM's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.formats._asked_names import AskedNames
from sightline.formats._text_damage import count_misspelt
from sightline.formats.serving._requests import (
    import_serving,
    make_stat,
    note_left_out,
    read_documents,
    read_number,
)

IMPORTER = Importer(
    name="guidellm",
    label="GuideLLM",
    strong=(
        rb'^\s*\{\s*"metadata"\s*:\s*\{[^{}]*"guidellm_version"',
        rb'"type_"\s*:\s*"generative_benchmark(?:s_report)?"',
    ),
    weak=(),
    looks_like='JSON with "guidellm_version" and "benchmarks"',
    suffixes=(".json",),
    version=5,
    source="https://github.com/vllm-project/guidellm",
)

# GuideLLM's name, ours, and the unit that the name says (guidellm/benchmark/schemas).
_METRICS = {
    "time_to_first_token_ms": ("ttft", "ms"),
    "inter_token_latency_ms": ("itl", "ms"),
    "time_per_output_token_ms": ("tpot", "ms"),
    "request_latency": ("latency", "s"),
    "requests_per_second": ("request_rate", "1/s"),
    "output_tokens_per_second": ("output_rate", "tokens/s"),
    "prompt_token_count": ("input_tokens", "tokens"),
    "output_token_count": ("output_tokens", "tokens"),
    "request_concurrency": ("concurrency", "requests"),
}
_STATISTICS = {"mean": "mean", "min": "min", "max": "max"}
# All that it writes; of figures, one is another's when a digit is gone.
_WRITTEN = {"p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999"}
_PERCENTILES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all benchmarks' statistics. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    asked = AskedNames()
    stats: list[dict[str, Any]] = []
    version = None
    names = values = 0
    for document in read_documents(source, notes, asked):
        if not isinstance(document, dict):
            continue
        metadata = document.get("metadata")
        found = metadata.get("guidellm_version") if isinstance(metadata, dict) else None
        version = found[:20] if isinstance(found, str) else version
        benchmarks = document.get("benchmarks")
        for number, one in enumerate(benchmarks if isinstance(benchmarks, list) else ()):
            if isinstance(one, dict):
                stats += _list_stats(one, number)
                left_out = _count_left_out(one)
                names, values = names + left_out[0], values + left_out[1]
    notes += note_left_out(names, values)
    asked.note(notes)
    return import_serving(source, "GuideLLM", [], stats, notes, version)


def _list_stats(benchmark: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    metrics = benchmark.get("metrics")
    if not isinstance(metrics, dict):
        return
    for key, (metric, unit) in _METRICS.items():
        found = metrics.get(key)
        done = found.get("successful") if isinstance(found, dict) else None
        if not isinstance(done, dict) or not done.get("count"):
            continue
        for name, ours in _STATISTICS.items():
            yield from make_stat(metric, ours, done.get(name), unit, number)
        percentiles = done.get("percentiles")
        known = percentiles if isinstance(percentiles, dict) else {}
        for name, ours in _PERCENTILES.items():
            yield from make_stat(metric, ours, known.get(name), unit, number)


def _count_left_out(benchmark: dict[str, Any]) -> tuple[int, int]:
    """How many names are nearly those of metrics or statistics, and how many values are none.

    GuideLLM writes each metric with each of its statistics; None where no request completed.
    """
    metrics = benchmark.get("metrics")
    if not isinstance(metrics, dict):
        return count_misspelt(list(benchmark), ("metrics",)), int("metrics" in benchmark)
    names = count_misspelt(list(metrics), _METRICS)
    values = 0
    for key in _METRICS:
        found = metrics.get(key)
        done = found.get("successful") if isinstance(found, dict) else None
        if not isinstance(found, dict):
            values += key in metrics and found is not None
        elif not isinstance(done, dict):
            values += "successful" not in found or done is not None
        elif done.get("count") or "count" not in done:
            percentiles = done.get("percentiles")
            names += count_misspelt(list(done), (*_STATISTICS, "count", "percentiles"))
            values += sum(_is_odd(done, name) for name in (*_STATISTICS, "count"))
            values += "percentiles" in done and not isinstance(percentiles, dict | None)
            if isinstance(percentiles, dict):
                names += count_misspelt(list(percentiles), _PERCENTILES)
                names += sum(name not in _WRITTEN for name in percentiles if name[1:].isdigit())
                values += sum(_is_odd(percentiles, name) for name in _PERCENTILES)
    return names, values


def _is_odd(statistics: dict[str, Any], name: str) -> bool:
    value = statistics.get(name)
    return value is not None and read_number(value) is None
