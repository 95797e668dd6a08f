"""An engine's metrics as it serves them: Prometheus' text, or TensorRT-LLM's list of iterations.

One reading of a few hundred lines, every few seconds: read in plain Python, without a table. What
somebody else wrote is bounded: lines, labels and values that are none are passed over.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# Longer lines are none of an exporter's (ours: vLLM's longest, cache_config_info, has 1,500).
_LONGEST = 1 << 16
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
# TensorRT-LLM's /metrics (LLM API reference, IterationStats): what of an iteration is which metric.
_ITERATION = {
    "numActiveRequests": "trtllm_num_requests_running",
    "numQueuedRequests": "trtllm_num_requests_waiting",
    "iterLatencyMS": "iteration_ms",
}


class Sample(NamedTuple):
    """One value of a metric, and what tells it from others of its name."""

    name: str
    labels: dict[str, str]
    value: float


def parse_samples(text: str) -> list[Sample]:
    """The samples of a /metrics, in order; empty where it has none. Values may be infinite."""
    if text.lstrip()[:1] in ("[", "{"):
        return list(_read_iterations(text))
    return list(_read_lines(text))


def _read_lines(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        if line.startswith("#") or len(line) > _LONGEST:
            continue
        found = _LINE.match(line)
        value = None if found is None else _read_number(found[3])
        if found is not None and value is not None:
            yield Sample(found[1], dict(_LABEL.findall(found[2] or "")), value)


def _read_number(text: object) -> float | None:
    try:
        value = float(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    return None if math.isnan(value) else value


def _read_iterations(text: str) -> Iterator[Sample]:
    """The last iteration of TensorRT-LLM's list, which it empties as it is asked."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return
    last: Any = told[-1] if isinstance(told, list) and told else None
    if not isinstance(last, dict):
        return
    for key, name in _ITERATION.items():
        if (value := _read_number(last.get(key))) is not None:
            yield Sample(name, {}, value)
    cache = last.get("kvCacheStats")
    if isinstance(cache, dict):
        used, most = (_read_number(cache.get(k)) for k in ("usedNumBlocks", "maxNumBlocks"))
        if used is not None and most:
            yield Sample("trtllm_kv_cache_utilization", {}, used / most)
