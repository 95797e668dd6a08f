"""The gaps between an engine's steps, each nanosecond with its reason.

A gap lies between the end of one step and the start of the next. It is divided, in this order: no
request was there; the engine was inside a step's own range (it prepares inputs, samples, reads
back); else it was between steps (it schedules, sends and waits for messages); unclear where nothing
says whether a request was there. Of servers that prefill and decode apart a request is with one of
them at a time: without any, none is there; else the steps say, where they count who joins.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.model.run import Run
from sightline.timeline.engine_steps import DECODE, EMPTY, list_engine_steps

PARTS = ("no_request_ns", "in_step_ns", "scheduler_ns", "unclear_ns")


def list_gaps(run: Run) -> pl.DataFrame:
    """One row per rank and step: rank, step, gap_start_ns, gap_ns before it, and its PARTS, ns.

    The parts sum to the gap. With the client's requests in the run, no request was there while none
    was on its way; else this is read from who was decoding before and behind the gap.
    """
    return run.once(_list_gaps)


def list_request_spans(run: Run) -> pl.DataFrame:
    """The client's requests that overlap the steps in time: start_ns, end_ns; none of other clocks.

    A server that nobody else asks is idle between them; so they must cover all steps that computed.
    """
    steps = list_engine_steps(run).filter(pl.col("phase").fill_null("") != EMPTY)
    spans = run.table("served_requests", ["start_ns", "end_ns"]).drop_nulls()
    if steps.is_empty() or spans.is_empty():
        return spans.clear()
    covered = measure_cover_between(steps, "start_ns", "end_ns", spans, [])
    # A step may end just behind its client's last token: the device runs ahead of nobody.
    length = (steps.get_column("end_ns") - steps.get_column("start_ns")).sum()
    return spans if 2 * covered.sum() > length else spans.clear()


def are_apart(steps: pl.DataFrame) -> bool:
    """Whether one rank of engine steps only prefills, and another decodes."""
    prefill, decode = pl.col("prefill_tokens"), pl.col("decode_tokens")
    sums = steps.group_by("rank").agg(prefill.sum(), decode.sum())
    only = sums.filter((prefill > 0) & (decode == 0))
    return bool(only.height) and not sums.filter(decode > 0).is_empty()


def list_idle_spans(run: Run) -> pl.DataFrame:
    """When each engine's thread had no request: rank, pid, tid, host_op_id (null), start, end, ns.

    With the client's requests these are the times between them; else whole gaps.
    """
    steps = list_engine_steps(run)
    thread = ["rank", "pid", "tid"]
    requests = list_request_spans(run)
    if requests.height and not are_apart(steps):
        before = pl.col("end_ns").cum_max().shift(1)
        empty = requests.sort("start_ns").select(start_ns=before, end_ns="start_ns")
        spans = steps.select(thread).unique().join(empty.drop_nulls(), how="cross")
    else:
        whole = pl.col("no_request_ns") == pl.col("gap_ns")
        gaps = list_gaps(run).filter((pl.col("gap_ns") > 0) & whole)
        spans = gaps.join(steps.select(*thread, "step"), on=["rank", "step"]).select(
            *thread, start_ns="gap_start_ns", end_ns=pl.col("gap_start_ns") + pl.col("gap_ns")
        )
    return (
        spans.filter(pl.col("end_ns") > pl.col("start_ns"))
        .select(*thread, pl.lit(None, pl.Int64).alias("host_op_id"), "start_ns", "end_ns")
        .sort("start_ns")
    )


def _list_gaps(run: Run) -> pl.DataFrame:
    steps = list_engine_steps(run)
    before = pl.col("end_ns").cum_max().shift(1).over("rank")
    gaps = steps.with_columns(gap_start_ns=pl.min_horizontal(before, "start_ns")).with_columns(
        pl.col("gap_start_ns").fill_null(pl.col("start_ns"))
    )
    gaps = gaps.with_columns(gap_ns=pl.col("start_ns") - pl.col("gap_start_ns"))
    requests, apart = list_request_spans(run), are_apart(steps)
    there = measure_cover_between(gaps, "gap_start_ns", "start_ns", requests, [])
    if requests.height and not apart:
        gaps = gaps.with_columns(no_request_ns=pl.col("gap_ns") - there, is_known=pl.lit(True))
    else:
        runs = _has_requests()
        if apart:
            counted = (pl.col("prefill_tokens").sum() > 0) & (pl.col("decode_tokens").sum() > 0)
            runs = pl.when(counted.over("rank")).then(runs)
        nobody = pl.col("gap_ns") - there if requests.height else pl.lit(0)
        gaps = gaps.with_columns(runs=runs)
        gaps = gaps.with_columns(
            no_request_ns=pl.when(~pl.col("runs")).then("gap_ns").otherwise(nobody),
            is_known=pl.col("runs").is_not_null(),
        )
    ranges = steps.select("rank", start_ns="host_start_ns", end_ns="host_end_ns")
    inside = measure_cover_between(gaps, "gap_start_ns", "start_ns", ranges, ["rank"])
    left = pl.col("gap_ns") - pl.col("no_request_ns")
    gaps = gaps.with_columns(in_step_ns=pl.min_horizontal(pl.lit(inside), left))
    rest = left - pl.col("in_step_ns")
    return gaps.select(
        *("rank", "step", "gap_start_ns", "gap_ns", "no_request_ns", "in_step_ns"),
        scheduler_ns=pl.when("is_known").then(rest).otherwise(0),
        unclear_ns=pl.when("is_known").then(0).otherwise(rest),
    )


def _has_requests() -> pl.Expr:
    """Whether requests were there all through the gap before a step; null where unknown.

    The next step that decodes has `decode_requests`; those that no step from the gap on has
    prefilled were there before it. A prompt in pieces is there between them: the step before filled
    the budget of tokens, or the next one continues a context. Steps that are only known to decode
    continue somebody.
    """
    prefills = pl.col("prefill_requests").fill_null(0)
    begun = prefills.cum_sum() - prefills  # by steps before this one
    decodes = pl.when(pl.col("decode_requests") > 0)
    wanted = decodes.then(pl.col("decode_requests") - begun).backward_fill()
    waits = (wanted + begun) > 0
    tokens = pl.col("prefill_tokens") + pl.col("decode_tokens").fill_null(0)
    is_full = (tokens == tokens.max()) & ((tokens == tokens.max()).sum() > 1)
    continues = (pl.col("prefill_requests") == 1) & (
        pl.col("prefill_context") > pl.col("prefill_tokens")
    )
    chunked = (is_full & (prefills > 0)).shift(1) & (prefills > 0)
    known = pl.col("decode_requests").is_not_null() | pl.col("prefill_requests").is_not_null()
    named = pl.col("phase").is_in([EMPTY, DECODE]).fill_null(value=False)
    runs = (
        (pl.col("phase").fill_null("") == DECODE) & pl.col("decode_requests").is_null()
        | waits.fill_null(value=False)
        | chunked.fill_null(value=False)
        | continues.fill_null(value=False)
    )
    return pl.when(known | named).then(runs).over("rank")
