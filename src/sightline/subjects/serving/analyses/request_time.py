"""Where did each request spend its time, from sending it to its last token?

The client's log says when a request was sent, and when its first and its last token came; the
engine's steps say what ran meanwhile. The parts of the time to the first token, and of the rest,
sum to what the client measured, to the nanosecond. The step that made the first token is the last
one with prompts that ended before the client had it.

What lies before the first step that was recorded is waiting for it: the API server reads and
splits the prompt, the engine starts, and steps of before the recording may have run. What else
lies outside of all steps and gaps is delivery: the network, the API server's work, and the client's
own.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.latest import find_latest
from sightline.core.model.columns import RANK, duration, number
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.engine_gaps import are_apart, list_gaps, list_request_spans
from sightline.timeline.engine_steps import DECODE, EMPTY

_FIRST = (
    *("ttft_own_step_ns", "ttft_other_steps_ns", "ttft_scheduling_ns"),
    *("ttft_before_steps_ns", "ttft_delivery_ns"),
)
_REST = ("decode_steps_ns", "prompt_steps_ns", "scheduling_ns", "delivery_ns")

ANALYSIS = Analysis(
    "request_time",
    "Where did each request spend its time?",
    (
        number("request_id", "the request", required=True),
        RANK,
        number("prompt_tokens", "tokens of its prompt, as the client says"),
        number("output_tokens", "tokens that it got"),
        duration("ttft_ns", "from sending it to its first token"),
        duration("ttft_own_step_ns", "of that: the step that made its first token"),
        duration("ttft_other_steps_ns", "of that: steps before it"),
        duration("ttft_scheduling_ns", "of that: between steps"),
        duration("ttft_before_steps_ns", "of that: before the first step that was recorded"),
        duration("ttft_delivery_ns", "of that: none of these, mostly behind the step"),
        duration("rest_ns", "from its first token to its last one"),
        duration("decode_steps_ns", "of that: steps that only decode"),
        duration("prompt_steps_ns", "of that: steps that compute prompts, too"),
        duration("scheduling_ns", "of that: between steps"),
        duration("delivery_ns", "of that: neither"),
    ),
    needs=("served_requests",),
    notes=("Five parts sum to ttft_ns, the other four to rest_ns.",),
    worst="ttft_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per request, in order of sending. Raises MissingDataError."""
    steps = run.ask("engine_steps")
    if are_apart(steps):
        raise MissingDataError(
            "a request's time is that of two servers",
            why="one recorded server prefills, and another decodes",
            hint="sightline stats request_story PREFILL DECODE client.json",
        )
    if list_request_spans(run).is_empty():
        raise MissingDataError(
            "requests and steps cannot be joined",
            why="the client's requests lie at other times than the steps",
            hint="Record both at once:  sightline run --server vllm URL --requests 32",
        )
    rank = int(steps.select(pl.col("rank").min()).item())
    steps = steps.filter(pl.col("rank") == rank)
    asked = run.table("served_requests").drop_nulls(["start_ns", "ttft_ns", "end_ns"])
    asked = asked.sort("start_ns").with_columns(first_ns=pl.col("start_ns") + pl.col("ttft_ns"))
    prompts = steps.filter(pl.col("prefill_requests") > 0).select("start_ns", "end_ns")
    prompts = prompts.with_columns(rank=pl.lit(0))
    places = asked.with_columns(rank=pl.lit(0))
    made = find_latest(places, "first_ns", prompts.with_row_index("row"), "end_ns", ["rank"])
    own = prompts.select(
        pl.col("start_ns", "end_ns").gather(made.cast(pl.Int64)).name.prefix("own_")
    )
    asked = asked.hstack(own)
    spans = _list_spans(run, steps, rank)
    begin, sent = steps.get_column("start_ns").min(), asked.get_column("start_ns").min()
    spans["before"] = pl.DataFrame({"start_ns": [min(begin, sent)], "end_ns": [begin]})  # type: ignore[type-var]
    cover = {
        name: measure_cover_between(asked, "start_ns", "first_ns", frame, [])
        for name, frame in spans.items()
    }
    later = {
        name: measure_cover_between(asked, "first_ns", "end_ns", frame, [])
        for name, frame in spans.items()
    }
    # Of the own step, what lies behind the sending: a prompt may join a step that has begun.
    in_own = pl.col("own_end_ns") - pl.max_horizontal("own_start_ns", "start_ns")
    all_steps = pl.lit(cover["decode"]) + pl.lit(cover["prompt"])
    first = asked.with_columns(
        ttft_own_step_ns=pl.min_horizontal(in_own.clip(lower_bound=0).fill_null(0), all_steps),
        ttft_scheduling_ns=pl.lit(cover["gap"]),
        ttft_before_steps_ns=pl.lit(cover["before"]),
    ).with_columns(ttft_other_steps_ns=all_steps - pl.col("ttft_own_step_ns"))
    rest = first.with_columns(
        rest_ns=pl.col("end_ns") - pl.col("first_ns"),
        decode_steps_ns=pl.lit(later["decode"]),
        prompt_steps_ns=pl.lit(later["prompt"]),
        scheduling_ns=pl.lit(later["gap"]),
        rank=pl.lit(rank),
    )
    return rest.with_columns(
        ttft_delivery_ns=pl.col("ttft_ns") - pl.sum_horizontal(_FIRST[:-1]),
        delivery_ns=pl.col("rest_ns") - pl.sum_horizontal(_REST[:-1]),
    ).select(column.name for column in ANALYSIS.columns)


def _list_spans(run: Run, steps: pl.DataFrame, rank: int) -> dict[str, pl.DataFrame]:
    """Disjoint spans of one rank: steps that decode, steps with prompts, and the gaps between."""
    before = pl.col("end_ns").cum_max().shift(1)
    own = steps.with_columns(start_ns=pl.max_horizontal("start_ns", before)).filter(
        pl.col("end_ns") > pl.col("start_ns")
    )
    gaps = list_gaps(run).filter(pl.col("rank") == rank)
    decodes = pl.col("phase").is_in([DECODE, EMPTY])
    span = ("start_ns", "end_ns")
    return {
        "decode": own.filter(decodes).select(span),
        "prompt": own.filter(~decodes.fill_null(value=False)).select(span),
        "gap": gaps.select(
            start_ns="gap_start_ns", end_ns=pl.col("gap_start_ns") + pl.col("gap_ns")
        ),
    }
