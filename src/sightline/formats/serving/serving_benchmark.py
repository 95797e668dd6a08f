"""Results of `vllm bench serve` and SGLang's `bench_serving`, and logs of clients.

A result is one JSON object (vLLM), or one in each line (SGLang): rates and percentiles, and with
--save-detailed or --output-details the times of each request and each of its tokens, in seconds. A
client's log is a list of requests with `start` (seconds since the epoch), `ttft` and `itl`, or the
`error` with which one failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.formats._asked_names import AskedNames
from sightline.formats._text_damage import count_misspelt, is_rest
from sightline.formats.serving._requests import (
    import_serving,
    make_request,
    make_stat,
    note_left_out,
    read_documents,
    read_number,
)

IMPORTER = Importer(
    name="serving_benchmark",
    label="Benchmark of an inference server, or its client's log",
    strong=(
        rb'^\s*\{[^{}]{0,4000}"(?:total_output_tokens|request_throughput)"\s*:\s*[\d.]',
        rb'^\s*\[\s*\{[^{}]{0,400}"ttft"\s*:\s*[\d.]',
        rb'^\s*\[\s*\{[^{}]{0,200}"start"\s*:\s*\d[^{}]{0,200}"error"\s*:\s*"',
    ),
    weak=(),
    looks_like='JSON with "request_throughput", or a list of requests with "ttft" and "itl"',
    suffixes=(".json", ".jsonl"),
    version=6,
    source="https://docs.vllm.ai/en/latest/cli/bench/serve.html",
)

_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "latency", "e2e_latency": "latency"}
_STATISTIC = re.compile(r"^(mean|median|std|min|max|p\d{1,2}(?:\.\d+)?)_(\w+)_ms$")
_RATES = {
    "request_throughput": ("request_rate", "1/s"),
    "output_throughput": ("output_rate", "tokens/s"),
    "duration": ("duration", "s"),
    "completed": ("completed", "requests"),
    "total_input_tokens": ("input_tokens", "tokens"),
    "total_output_tokens": ("output_tokens", "tokens"),
    "max_concurrent_requests": ("concurrency", "requests"),
}
_NAMES = {"median": "p50"}
_LISTS = ("ttfts", "itls", "start_times", "latencies", "input_lens", "output_lens", "queue_times",
          "errors")  # fmt: skip
_KNOWN = {*_RATES, *_LISTS, *(f"{of}_{what}_ms" for of in ("mean", "median", "std", "p99")
                              for what in _TIMES)}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all requests and statistics. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    asked = AskedNames()
    requests: list[dict[str, Any]] = []
    stats: list[dict[str, Any]] = []
    names = values = 0
    tool = "client of an inference server"
    for number, document in enumerate(read_documents(source, notes, asked)):
        if isinstance(document, list):
            requests += [_read_client(one) for one in document if isinstance(one, dict)]
        elif isinstance(document, dict):
            tool = f"benchmark of {str(document.get('backend') or 'a server')[:20]}"
            requests += _list_requests(document)
            stats += _list_stats(document, number)
            odd = [key for key in document if not _is_statistic(key)]
            missing = _KNOWN - {*document}
            names += count_misspelt(odd, missing)
            names += sum(any(is_rest(key, name) for name in missing) for key in odd)
            values += sum(
                value is not None and read_number(value) is None
                for key, value in document.items()
                if _is_statistic(key)
            )
    notes += note_left_out(names, values)
    asked.note(notes)
    return import_serving(source, tool, requests, stats, notes)


def _is_statistic(key: str) -> bool:
    """Whether a key is of a number that is read."""
    found = _STATISTIC.match(key)
    return key in _RATES or (found is not None and found[2] in _TIMES)


def _read_client(one: dict[str, Any]) -> dict[str, Any]:
    begin, end = read_number(one.get("start")), read_number(one.get("end"))
    return make_request(
        begin,
        one.get("ttft"),
        one.get("itl"),
        None if begin is None or end is None else end - begin,
        one.get("prompt_tokens", one.get("ptok")),
        one.get("output_tokens", one.get("n")),
        status=_name_status(one.get("error")),
    )


def _name_status(error: Any) -> str:
    return "failed" if isinstance(error, str) and error else "completed"


def _list_requests(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The requests of a result with details: lists of the same length, one entry for each."""

    def at(name: str, number: int) -> Any:
        values = result.get(name)
        return values[number] if isinstance(values, list) and number < len(values) else None

    ttfts = result.get("ttfts")
    for n in range(len(ttfts) if isinstance(ttfts, list) else 0):
        yield make_request(
            at("start_times", n),
            at("ttfts", n),
            at("itls", n),
            at("latencies", n),
            at("input_lens", n),
            at("output_lens", n),
            at("queue_times", n),
            _name_status(at("errors", n)),
        )


def _list_stats(result: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    for key, value in result.items():
        if key in _RATES:
            metric, unit = _RATES[key]
            yield from make_stat(metric, "total", value, unit, number)
        elif (found := _STATISTIC.match(key)) and found[2] in _TIMES:
            name = _NAMES.get(found[1], found[1])
            yield from make_stat(_TIMES[found[2]], name, value, "ms", number)
