"""Where was each request, on a server that prefills, on the way, and on one that decodes?

Two recordings and the client's log make one story: the prompt until it is computed, its keys and
values until they have come, and its tokens until the last one. What the client waits beyond is
delivery. The parts sum to the client's latency to the nanosecond; clocks that are apart are moved
onto the client's (`sightline.subjects.serving.apart`), by how much is said.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, pct, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.subjects.serving.apart import tell_story

ANALYSIS = Analysis(
    "request_story",
    "Where was each request, of servers that prefill and decode apart?",
    (
        number("request_id", "the request", required=True),
        time("sent_ns", "when the client sent it"),
        duration("latency_ns", "from sending it to its last token, as the client says"),
        duration("prefill_ns", "of that: until the prefill server had computed its prompt"),
        duration("transfer_ns", "of that: until its keys and values had come"),
        duration("decode_ns", "of that: until the decode server had made its last token"),
        duration("delivery_ns", "of that: the rest; below 0 where clocks differ by more"),
        pct("told_pct", "prefill, transfer and decode, % of the latency"),
        text("moved_by", "by what it is known when keys and values had come"),
        number("prefill_rank", "rank of the prefill server's recording"),
        number("decode_rank", "rank of the decode server's recording"),
        duration("prefill_offset_ns", "by how much the prefill server's clock was moved"),
        duration("decode_offset_ns", "by how much the decode server's clock was moved"),
    ),
    needs=("served_requests",),
    notes=("The four parts sum to latency_ns.",),
    worst="latency_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per request, in order of sending. Raises MissingDataError."""
    story = tell_story(run)
    parts = story.frame.with_columns(
        latency_ns=pl.col("end_ns") - pl.col("sent_ns"),
        prefill_ns=pl.col("prefilled_ns") - pl.col("sent_ns"),
        transfer_ns=pl.col("moved_ns") - pl.col("prefilled_ns"),
        decode_ns=pl.col("left_ns") - pl.col("moved_ns"),
        delivery_ns=pl.col("end_ns") - pl.col("left_ns"),
        moved_by=pl.lit(story.moved_by),
        prefill_rank=pl.lit(story.prefill_rank, pl.Int64),
        decode_rank=pl.lit(story.decode_rank, pl.Int64),
        prefill_offset_ns=pl.lit(story.prefill_offset_ns, pl.Int64),
        decode_offset_ns=pl.lit(story.decode_offset_ns, pl.Int64),
    )
    told = pl.col("prefill_ns") + pl.col("transfer_ns") + pl.col("decode_ns")
    return (
        parts.with_columns(told_pct=100 * told / pl.col("latency_ns"))
        .sort("sent_ns", "request_id")
        .select(column.name for column in ANALYSIS.columns)
    )
