"""How many requests a second did the server answer within published promises?

The promises are those of MLPerf Inference: a time to the first token, and a mean time of each
further one. Your own: sightline stats goodput FILE --set ttft_ms=500 --set tpot_ms=50
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, number, pct, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.subjects.serving.goodput import Promise, list_promises, measure_goodput

ANALYSIS = Analysis(
    "goodput",
    "How many requests a second were answered within published promises?",
    (
        RANK,
        text("promise", "who promises it", required=True),
        real("ttft_ms", "longest time to the first token", "ms"),
        real("tpot_ms", "longest mean time of each further token", "ms"),
        number("requests", "requests of the clients"),
        number("good", "requests that were answered within both"),
        pct("good_pct", "good, % of the requests"),
        real("goodput", "good requests a second", "1/s"),
        real("good_tokens_per_s", "their tokens a second", "tokens/s"),
        number("ttft_failed", "requests whose first token came too late, or never"),
        number("tpot_failed", "requests whose further tokens came too slowly, or never"),
        text("source", "where the promise is from"),
    ),
    needs=("served_requests",),
    params=(
        Param("ttft_ms", 0.0, "longest time to the first token that you promise; 0: none", "ms"),
        Param("tpot_ms", 0.0, "longest mean time of each further one; 0: none", "ms"),
    ),
)

_NEEDED = ("start_ns", "end_ns", "ttft_ns", "latency_ns", "output_tokens")


def run(run: Run, *, ttft_ms: float = 0.0, tpot_ms: float = 0.0) -> pl.DataFrame:
    """One row per rank and promise, yours first where you gave one.

    Raises MissingDataError where no request has its times, RequestError for times below 0.
    """
    if ttft_ms < 0 or tpot_ms < 0:
        raise RequestError("a promised time is above 0", hint="For example --set ttft_ms=500")
    promises = list_promises()
    if ttft_ms or tpot_ms:
        promises.insert(0, Promise("yours", ttft_ms or None, tpot_ms or None, "as asked"))
    served = run.table("served_requests", ["rank", "status", *_NEEDED])
    timed = served.drop_nulls(["start_ns"])
    if timed.drop_nulls(_NEEDED).is_empty():
        raise MissingDataError(
            "goodput is unknown",
            why="no request has the times of its sending, its first and its last token",
            hint="vllm bench serve --save-result --save-detailed, or sightline run --server",
        )
    rows = []
    for (rank,), mine in timed.partition_by("rank", as_dict=True, maintain_order=True).items():
        for promise in promises:
            told = measure_goodput(mine, promise)
            rows.append(
                (
                    rank, promise.name, promise.ttft_ms, promise.tpot_ms, told.requests, told.good,
                    100 * told.good / told.requests, told.requests_per_s, told.tokens_per_s,
                    told.ttft_failed, told.tpot_failed, promise.source,
                )
            )  # fmt: skip
    return pl.DataFrame(rows, schema=[column.name for column in ANALYSIS.columns], orient="row")
