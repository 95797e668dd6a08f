"""How loaded was the inference server, and how long did its requests take?

By the client's log or a benchmark's details (each request), by what a benchmark printed, by the
server's /metrics (histograms and gauges), and by its log. Quantiles of histograms are linear within
a bucket, as Prometheus has them, but no more than the mean allows.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving.load import QUANTILES, summarize_load

ANALYSIS = Analysis(
    "serving_load",
    "How loaded was the inference server, and how long did its requests take?",
    (
        RANK,
        text(
            "metric",
            "ttft, itl, tpot, latency, queue, running, waiting, kv_cache, output_rate, iteration, "
            "preemptions, input_tokens, output_tokens, flops, read_bytes, written_bytes, drafted, "
            "accepted, drafts, accepted_length, request_rate, concurrency, duration or completed",
            required=True,
        ),
        text("unit", "ms, %, tokens/s, tokens, requests, steps, FLOP, bytes, 1/s or s"),
        number("count", "requests, tokens or readings behind it"),
        real("total", "sum, of what is counted"),
        real("mean", "mean"),
        *(real(name, f"quantile {q}") for name, q in QUANTILES.items()),
        real("max", "largest"),
        text("source", "requests, benchmark, histogram, gauge or counter", required=True),
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank, metric and source. Raises MissingDataError where nothing is known."""
    load = summarize_load(run)
    if load.is_empty():
        raise MissingDataError(
            "the server's load is unknown",
            why="the recording has no request, no benchmark and no metric of an inference server",
            hint="curl http://127.0.0.1:8000/metrics > metrics.txt, or the server's log, or the "
            "results of its benchmark",
        )
    return load.sort("rank", "metric", "source")
