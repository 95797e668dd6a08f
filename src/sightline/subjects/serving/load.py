"""How loaded a server was and how long requests took, by its metrics, its log and its clients.

metrics.tsv says what each server calls what. Histograms are read as Prometheus does
(histogram_quantile): linear within a bucket; a quantile in the last one is the last bound, and none
is more than the mean allows.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.serving.goodput import measure_sending

# vLLM's watermark and SGLang's retraction begin above that.
FULL_PCT = 90.0
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
SCHEMA = {
    "rank": pl.Int64,
    "metric": pl.String,
    "unit": pl.String,
    "count": pl.Int64,
    "total": pl.Float64,
    "mean": pl.Float64,
    **dict.fromkeys(QUANTILES, pl.Float64),
    "max": pl.Float64,
    "source": pl.String,
}
_LE = r"(?:^|, )le=([^,]+)"


def summarize_load(run: Run) -> pl.DataFrame:
    """One row per rank, source and metric that is known (SCHEMA): ms, %, requests, tokens."""
    return run.once(_summarize)


def _summarize(run: Run) -> pl.DataFrame:
    rows = [*_summarize_requests(run), *_read_stats(run), *_read_counters(run)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(rank: int, metric: str, unit: str, source: str, **known: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(SCHEMA),
        "rank": rank,
        "metric": metric,
        "unit": unit,
        "source": source,
        **known,
    }


def _summarize_values(values: pl.Series) -> dict[str, Any]:
    """Count, mean, maximum and quantiles; linear between two values, as NumPy and vLLM have it."""
    return {
        "count": values.len(),
        "mean": values.mean(),
        "max": values.max(),
        **{name: values.quantile(q, "linear") for name, q in QUANTILES.items()},
    }


def _summarize_requests(run: Run) -> Iterator[dict[str, Any]]:
    requests = run.table("served_requests").filter(pl.col("status").fill_null("") != "failed")
    for (rank,), mine in requests.partition_by("rank", as_dict=True).items():
        ttft, itl = mine["ttft_ns"].drop_nulls(), mine["itl_ns"].explode().drop_nulls()
        decoded = mine.filter(pl.col("output_tokens") > 1)
        tpot = (decoded["latency_ns"] - decoded["ttft_ns"]) / (decoded["output_tokens"] - 1)
        for metric, values in (
            ("ttft", ttft),
            ("itl", itl),
            ("tpot", tpot.drop_nulls()),
            ("latency", mine["latency_ns"].drop_nulls()),
            ("queue", mine["queue_ns"].drop_nulls()),
        ):
            if values.len():
                told = _summarize_values(values.cast(pl.Float64) / 1e6)
                yield _row(rank, metric, "ms", "requests", **told)
        spans = mine.select("start_ns", "end_ns", "output_tokens").drop_nulls()
        if length := measure_sending(spans):
            rate = 1e9 * int(spans["output_tokens"].sum()) / length
            told = {"count": spans.height, "mean": rate}
            yield _row(rank, "output_rate", "tokens/s", "requests", **told)


def _read_stats(run: Run) -> Iterator[dict[str, Any]]:
    """What benchmarks printed; each of several in a file is a source of its own."""
    stats = run.table("serving_stats")
    several = (stats["benchmark"].n_unique() if stats.height else 0) > 1
    keys = ("rank", "benchmark", "metric", "unit")
    for (rank, number, metric, unit), mine in stats.partition_by(
        keys, as_dict=True, maintain_order=True
    ).items():
        known = dict(mine.select("statistic", "value").rows())
        scale = 1000.0 if unit == "s" and metric != "duration" else 1.0
        told = {k: known[k] * scale for k in (*QUANTILES, "mean", "max", "total") if k in known}
        source = f"benchmark {number}" if several else "benchmark"
        yield _row(rank, metric, "ms" if scale > 1 else unit, source, **told)


def _read_counters(run: Run) -> Iterator[dict[str, Any]]:
    if not run.rows("counters"):
        return
    counters = run.table("counters", ["rank", "metric", "source", "time_ns", "value"])
    names = counters.get_column("metric").unique().cast(pl.String)
    for told in list_metrics():
        name, scale = told["metric"], float(told["scale"])
        wanted = f"{name}_bucket" if told["kind"] == "histogram" else name
        if not names.str.contains(wanted, literal=True).any():
            continue
        mine = counters.filter(pl.col("metric").cast(pl.String) == wanted)
        for (rank,), rows in mine.partition_by("rank", as_dict=True).items():
            if told["kind"] == "histogram":
                sums = counters.filter(
                    pl.col("metric").cast(pl.String) == f"{name}_sum", pl.col("rank") == rank
                )
                whole = None if sums.is_empty() else _sum_growth(_take_growth(sums))
                known = _read_histogram(rows, whole, scale)
            elif told["kind"] == "counter":
                known = {"total": _sum_growth(_take_growth(rows)) * scale}
            else:
                known = _summarize_values(rows["value"] * scale)
            if known is not None:
                yield _row(rank, told["concept"], told["unit"], told["kind"], **known)


def _take_growth(rows: pl.DataFrame) -> pl.DataFrame:
    """How much each series of a counter grew from its first reading; of one, since the start."""
    value = pl.col("value")
    first, last = value.first(), value.last()
    grown = pl.when(pl.len() > 1).then((last - first).clip(lower_bound=0)).otherwise(last)
    ordered = rows.sort("time_ns", maintain_order=True)
    return ordered.group_by("source", maintain_order=True).agg(grown)


def _sum_growth(grown: pl.DataFrame) -> float:
    return float(grown.select(pl.col("value").sum()).item())


def _read_histogram(rows: pl.DataFrame, whole: float | None, scale: float) -> dict[str, Any] | None:
    """Count, mean and quantiles of cumulative buckets; None of an empty one.

    `whole` is the sum of all that was counted: the mean is unknown where it is.
    """
    bounds = _take_growth(rows).with_columns(le=pl.col("source").cast(pl.String).str.extract(_LE))
    known = bounds.with_columns(le=pl.col("le").replace({"+Inf": "inf"}).cast(pl.Float64))
    buckets = known.drop_nulls("le").group_by("le").agg(pl.col("value").sum()).sort("le").rows()
    if not buckets or buckets[-1][1] <= 0:
        return None
    count = buckets[-1][1]
    # No more than a share of 1 - q can lie above mean / (1 - q) (Markov): a first bucket of 300 ms
    # says little of a queue of microseconds.
    mean = math.inf if whole is None else whole / count
    quantiles = {
        name: min(find_quantile(buckets, q * count), mean / (1 - q))
        for name, q in QUANTILES.items()
    }
    return {
        "count": int(count),
        "mean": None if whole is None else scale * mean,
        **{name: scale * value for name, value in quantiles.items()},
    }


def find_quantile(buckets: Sequence[tuple[float, float]], wanted: float) -> float:
    """The value that `wanted` of those counted in cumulative buckets (bound, count) stay within."""
    below, since = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            if math.isinf(bound):
                return since
            share = (wanted - below) / (count - below) if count > below else 1.0
            return since + (bound - since) * share
        below, since = count, bound
    return since


@cache
def list_metrics() -> list[dict[str, str]]:
    """The rows of metrics.tsv: concept, kind, metric, scale, unit and source."""
    text = files(__package__).joinpath("metrics.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def sum_counter(run: Run, concept: str) -> float:
    """By how much a counter grew between its first and its last reading; 0 of one that has one."""
    if not run.rows("counters"):
        return 0.0
    counters = run.table("counters", ["metric", "source", "time_ns", "value"])
    names = [told["metric"] for told in list_metrics() if told["concept"] == concept]
    mine = counters.filter(pl.col("metric").cast(pl.String).is_in(names))
    grown = mine.sort("time_ns", maintain_order=True).group_by("metric", "source").agg(
        (pl.col("value").last() - pl.col("value").first()).clip(lower_bound=0)
    )  # fmt: skip
    return float(grown.get_column("value").sum())


def find_worst(run: Run, metric: str, statistic: str) -> float | None:
    """The largest value of a statistic over all ranks and sources; None where it is unknown."""
    load = summarize_load(run)
    if load.is_empty():
        return None
    found = load.filter(pl.col("metric") == metric).get_column(statistic).max()
    return float(found) if isinstance(found, int | float) else None
