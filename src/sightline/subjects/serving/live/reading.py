"""Readings of a server's metrics, and what changed from one to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.subjects.serving.live.exposition import Sample, parse_samples
from sightline.subjects.serving.load import find_quantile, list_metrics

# Of several engines of a server one is the fullest; everything else is added up.
_WORST = ("kv_cache", "accepted_length", "iteration")
# No engine counts further; sums of larger ones would be infinite.
_MOST = 1e30
_ENGINES = {"vllm:": "vllm", "sglang:": "sglang", "trtllm_": "trtllm", "trtllm:": "trtllm"}


@dataclass(frozen=True)
class Histogram:
    """A histogram's cumulative buckets (bound → count), and the sum of what it counted."""

    buckets: dict[float, float]
    total: float


@dataclass(frozen=True)
class Reading:
    """What a server said at one moment, by the concepts of metrics.tsv.

    `time_s` is of a clock that only goes forward. Gauges are in the units of metrics.tsv, counters
    are as counted since the server began, histograms in its own unit with `scale` to ours.
    """

    time_s: float
    engine: str
    gauges: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Interval:
    """What a server did between two readings.

    `gauges` are as they are at its end; `rates` are counters a second, `growths` how much they
    grew; `times` are mean, p50 and p99 of each histogram over the interval, ms. `restarted` where
    counters went back: then all is since the server's start.
    """

    seconds: float
    engine: str
    gauges: dict[str, float]
    growths: dict[str, float]
    rates: dict[str, float]
    times: dict[str, dict[str, float]]
    restarted: bool = False


def read_metrics(text: str, time_s: float) -> Reading | None:
    """What a /metrics says; None where it has no metric of an inference engine."""
    samples = parse_samples(text)
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    engine = next((e for name in by_name for p, e in _ENGINES.items() if name.startswith(p)), None)
    if engine is None:
        return None
    found = Reading(time_s, engine)
    for told in list_metrics():
        concept, name, scale = told["concept"], told["metric"], float(told["scale"])
        if told["kind"] == "histogram":
            if concept not in found.histograms and f"{name}_bucket" in by_name:
                found.histograms[concept] = _read_histogram(by_name, name)
                found.scales[concept] = scale
            continue
        place = found.gauges if told["kind"] == "gauge" else found.counters
        if concept in place or name not in by_name:
            continue
        values = [s.value * scale for s in by_name[name] if abs(s.value) < _MOST]
        if values:
            place[concept] = max(values) if concept in _WORST else sum(values)
    return found if found.gauges or found.counters or found.histograms else None


def _read_histogram(by_name: dict[str, list[Sample]], name: str) -> Histogram:
    buckets: dict[float, float] = {}
    for sample in by_name[f"{name}_bucket"]:
        try:
            bound = float(sample.labels.get("le", "nan").replace("+Inf", "inf"))
        except ValueError:
            continue
        if not math.isnan(bound) and abs(sample.value) < _MOST:
            buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return Histogram(
        buckets, sum(s.value for s in by_name.get(f"{name}_sum", ()) if abs(s.value) < _MOST)
    )


def compare_readings(before: Reading, after: Reading) -> Interval:
    """What happened between two readings of one server; since its start where it began anew."""
    seconds = max(after.time_s - before.time_s, 1e-9)
    restarted = any(after.counters.get(k, v) < v for k, v in before.counters.items()) or any(
        _count(after.histograms[k]) < _count(v)
        for k, v in before.histograms.items()
        if k in after.histograms
    )
    old = Reading(before.time_s, before.engine) if restarted else before
    growths = {k: v - old.counters.get(k, 0.0) for k, v in after.counters.items()}
    times = {}
    for concept, histogram in after.histograms.items():
        grown = _subtract(histogram, old.histograms.get(concept))
        if (told := _summarize(grown, after.scales[concept])) is not None:
            times[concept] = told
    return Interval(
        seconds, after.engine, dict(after.gauges), growths,
        {k: v / seconds for k, v in growths.items()}, times, restarted,
    )  # fmt: skip


def _count(histogram: Histogram) -> float:
    return max(histogram.buckets.values(), default=0.0)


def _subtract(after: Histogram, before: Histogram | None) -> Histogram:
    if before is None:
        return after
    buckets = {b: max(n - before.buckets.get(b, 0.0), 0.0) for b, n in after.buckets.items()}
    return Histogram(buckets, max(after.total - before.total, 0.0))


def _summarize(histogram: Histogram, scale: float) -> dict[str, float] | None:
    buckets: Sequence[tuple[float, float]] = sorted(histogram.buckets.items())
    count = buckets[-1][1] if buckets else 0.0
    if count <= 0:
        return None
    mean = histogram.total / count
    told = {"count": count, "mean": scale * mean}
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        # No more than the mean allows (Markov), as serving_load has it.
        told[name] = scale * min(find_quantile(buckets, q * count), mean / (1 - q))
    return told
