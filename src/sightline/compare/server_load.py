"""Two loads of an inference server against each other: percentiles, rates, queue, KV cache.

By clients' logs, benchmarks, metrics or servers' logs (`sightline stats serving_load`): what both
sides know is compared, whatever recording it comes from; of two sources the one that knows each
request counts. One benchmark a side does not say how much such figures vary by themselves.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run

SCHEMA = "sightline-compare-load/1"
STATISTICS = ("mean", "p50", "p99", "total")
# Exact before summed up before printed.
_SOURCES = ("requests", "histogram", "benchmark", "gauge", "counter")


def has_load_only(run: Run) -> bool:
    """Whether a run says how loaded a server was, and has no timeline."""
    if run.rows("device_ops") or run.rows("host_ops"):
        return False
    if run.rows("served_requests") or run.rows("serving_stats"):
        return True
    metrics = run.table("counters", ["metric"]).get_column("metric").cast(pl.String)
    return bool(metrics.str.contains(r"^(?:vllm|sglang):|^trtllm_|^iteration_ms$").any())


def compare_loads(before: Run, after: Run) -> dict[str, Any]:
    """Rows of `load`: metric, unit, statistic, before, after, change and change_pct.

    Times are ms. A statistic that one side does not have has no row; `change_pct` is null where
    before is 0. Raises MissingDataError where a side knows nothing.
    """
    sides = [_take_best(run) for run in (before, after)]
    both = sides[0].join(sides[1], on=["metric", "unit", "statistic"], suffix="_after")
    change = pl.col("value_after") - pl.col("value")
    rows = both.select(
        "metric",
        "unit",
        "statistic",
        before="value",
        after="value_after",
        change=change,
        change_pct=pl.when(pl.col("value") != 0).then(100 * change / pl.col("value")),
    )
    return {"schema": SCHEMA, "load": rows.sort("metric", "statistic").to_dicts()}


def _take_best(run: Run) -> pl.DataFrame:
    """metric, unit, statistic and value of a run's load: one of each, from its best source."""
    load = run.ask("serving_load").with_columns(
        order=pl.col("source")
        .str.replace(r" \d+$", "")
        .replace_strict(dict(zip(_SOURCES, range(len(_SOURCES)), strict=True)), default=9)
    )
    long = load.unpivot(
        STATISTICS,
        index=["metric", "unit", "order"],
        variable_name="statistic",
        value_name="value",
    ).drop_nulls("value")
    return (
        long.sort("order", maintain_order=True)
        .unique(["metric", "unit", "statistic"], keep="first", maintain_order=True)
        .drop("order")
    )
