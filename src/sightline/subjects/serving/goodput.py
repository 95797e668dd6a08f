"""Goodput: the requests a second that were answered within what was promised.

A request is good where its first token came in time, and its further ones in the mean (as
`vllm bench serve --goodput` and DistServe count it).
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.packaged_rows import read_rows


class Promise(NamedTuple):
    """The longest times that were promised, ms; None where none was."""

    name: str
    ttft_ms: float | None
    tpot_ms: float | None
    source: str


class Goodput(NamedTuple):
    """How many requests were good, of how many; a second; and how many each promise failed."""

    requests: int
    good: int
    requests_per_s: float
    tokens_per_s: float
    ttft_failed: int
    tpot_failed: int


def list_promises() -> list[Promise]:
    """The published promises of promises.tsv."""
    rows = read_rows(__package__, "promises.tsv")
    return [Promise(name, float(ttft), float(tpot), source) for name, ttft, tpot, source in rows]


# Between two requests of one load; clocks that count from elsewhere are further apart.
_OTHER_CLOCK_NS = 86_400_000_000_000


def measure_sending(served: pl.DataFrame) -> int:
    """From the first sending to the last token (start_ns, end_ns), ns.

    Of several loads, each on a clock of its own (more than a day apart), their times added up.
    """
    spans = served.select("start_ns", "end_ns").drop_nulls().sort("start_ns", "end_ns")
    whole, begin, end = 0, 0, -1
    for start, stop in spans.rows():
        if end < begin or start > end + _OTHER_CLOCK_NS:
            whole, begin, end = whole + max(end - begin, 0), start, stop
        end = max(end, stop)
    return whole + max(end - begin, 0)


def measure_goodput(served: pl.DataFrame, promise: Promise) -> Goodput:
    """Of rows of `served_requests` with start_ns, end_ns, ttft_ns, latency_ns and output_tokens.

    The time is that of `measure_sending`. A request that failed is not good; one
    with a single token has no further ones.
    """
    failed = pl.col("status").fill_null("") == "failed"
    further = (pl.col("latency_ns") - pl.col("ttft_ns")) / (pl.col("output_tokens") - 1)
    tpot = pl.when(pl.col("output_tokens") > 1).then(further).otherwise(0.0)

    def within(value: pl.Expr, promised_ms: float | None) -> pl.Expr:
        kept = pl.lit(value=True) if promised_ms is None else value <= promised_ms * 1e6
        return (kept & ~failed).fill_null(value=False)

    known = served.with_columns(
        first=within(pl.col("ttft_ns"), promise.ttft_ms), next=within(tpot, promise.tpot_ms)
    )
    good = known.filter(pl.col("first") & pl.col("next"))
    seconds = max(measure_sending(known) / 1e9, 1e-9)
    return Goodput(
        known.height,
        good.height,
        good.height / seconds,
        int(good.get_column("output_tokens").sum()) / seconds,
        int((~known["first"]).sum()),
        int((~known["next"]).sum()),
    )
