"""Where does the time of a token go? The inter-token latency of all running requests, in parts.

A running request gets its next token when the step that decodes it ends. Since its last token it
waited for that step's model, for prompts of others in the same step or in steps before, and for the
engine between steps. Each step counts once for each request that it continues; the parts sum to the
whole to the nanosecond. What a preempted request waits until it runs again is not among them.

part
model                 the step, as long as a usual step of decode of its rank
idle in the model     of that: nothing ran on the device
not recorded          of that: launched work waited for something that is not in the recording
prompts beside it     what a step takes longer because it computes prompts, too
prompts before it     steps that computed prompts alone while it waited
scheduling            between steps, with a request there
host in steps         in a step's range, before or behind its work on the device
no request, unclear   other gaps: the engine had no request to run, or nobody knows
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.engine_steps import DECODE

ANALYSIS = Analysis(
    "token_time",
    "Where does the time of a token go?",
    (
        RANK,
        text("part", "what the requests waited for", required=True),
        duration("total_ns", "sum over all tokens of running requests"),
        duration("mean_ns", "of one token"),
        pct("share_pct", "total_ns, % of all parts"),
        number("tokens", "tokens of running requests: first tokens are not among them"),
    ),
    notes=("The parts' total_ns sum to the time between each token and the one before.",),
)

_GAPS = {
    "scheduling": "scheduler_ns",
    "host in steps": "in_step_ns",
    "no request": "no_request_ns",
    "unclear": "unclear_ns",
}
_UNKNOWN = "not recorded"
PARTS = ("model", "idle in the model", _UNKNOWN, "prompts beside it", "prompts before it", *_GAPS)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and part that has time. Raises MissingDataError."""
    steps = run.ask("engine_steps")
    if not (steps.get_column("decode_requests") > 0).any():
        raise MissingDataError(
            "the time of tokens is unknown",
            why="no step says how many running requests it continues",
            hint="vLLM's, SGLang's and TensorRT-LLM's own profilers write it: "
            "sightline run --server",
        )
    parts = _split_steps(steps.with_columns(lacking_ns=_measure_unrecorded(run, steps)))
    weighted = parts.select("rank", "tokens", *(pl.col(name) * pl.col("tokens") for name in PARTS))
    sums = weighted.group_by("rank").agg(pl.all().sum())
    rows = sums.unpivot(
        PARTS, index=["rank", "tokens"], variable_name="part", value_name="total_ns"
    ).filter(pl.col("total_ns") > 0)
    return rows.with_columns(
        mean_ns=(pl.col("total_ns") / pl.col("tokens")).round().cast(pl.Int64),
        share_pct=100 * pl.col("total_ns") / pl.col("total_ns").sum().over("rank"),
    ).sort("rank", "total_ns", "part", descending=[False, True, False])


def _measure_unrecorded(run: Run, steps: pl.DataFrame) -> pl.Series:
    """How long each step's device waited for what is not in the recording, ns.

    Where a rank has several devices, the one that waited longest.
    """
    none = pl.zeros(steps.height, dtype=pl.Int64, eager=True)
    if not run.rows("device_ops"):
        return none
    # Steps are those of the whole recording, whatever part of it is asked about.
    gaps = run.with_window(None).ask("idle_rules").filter(pl.col("cause") == "not_recorded")
    if gaps.is_empty():
        return none
    inside = pl.min_horizontal("end_ns", "end_ns_gap") - pl.max_horizontal(
        "start_ns", "start_ns_gap"
    )
    shared = (
        steps.select("rank", "step", "start_ns", "end_ns")
        .join(gaps.select("rank", "device_id", "start_ns", "end_ns"), on="rank", suffix="_gap")
        .group_by("rank", "step", "device_id")
        .agg(lacking_ns=inside.clip(lower_bound=0).sum())
        .group_by("rank", "step")
        .agg(pl.col("lacking_ns").max())
    )
    joined = steps.select("rank", "step").join(shared, on=["rank", "step"], how="left")
    return joined.get_column("lacking_ns").fill_null(0)


def _split_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """For each step with running requests: how many it continues, and what these waited for, ns.

    A step without any belongs to the next one that has some: who runs then waited for it, unless
    nobody ran before it (its prompts are those that are continued).
    """
    decodes = pl.col("decode_requests").fill_null(0) > 0
    own = pl.col("end_ns").cum_max() - pl.max_horizontal(
        "start_ns", pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("start_ns"))
    )
    own = own.clip(lower_bound=0).over("rank")
    usual = pl.col("duration_ns").filter(pl.col("phase") == DECODE).median().over("rank")
    block = decodes.shift(1).fill_null(value=False).cum_sum().over("rank")
    known = steps.with_columns(decodes=decodes, own=own, block=block).with_columns(
        usual=pl.min_horizontal("own", usual.fill_null(pl.col("own")).round().cast(pl.Int64)),
        # Behind the last prompts that were computed alone: who waits since then got a token there.
        late=(~pl.col("decodes") & (pl.col("prefill_requests").fill_null(0) > 0))
        .cast(pl.Int64)
        .cum_sum()
        .over("rank", "block"),
    )
    last_prompt = pl.col("late").max().over("rank", "block")
    is_behind = (pl.col("late") == last_prompt) & (
        pl.col("decodes") | (pl.col("prefill_requests").fill_null(0) == 0)
    )
    prompts = pl.col("prefill_requests").fill_null(0).filter(~pl.col("decodes")).sum()
    known = known.with_columns(
        is_behind=is_behind,
        new=pl.min_horizontal(
            prompts.over("rank", "block"), pl.col("decode_requests").fill_null(0)
        ),
    )
    idle = pl.when(pl.col("busy_ns").is_not_null() & pl.col("decodes")).then(
        (pl.col("usual") - pl.col("busy_ns")).clip(lower_bound=0)
    )
    known = known.with_columns(idle=pl.min_horizontal(idle.fill_null(0), "usual"))
    known = known.with_columns(lacking=pl.min_horizontal("idle", "lacking_ns"))
    held = _sum_block(known, pl.lit(value=True)).with_columns(
        tokens=pl.col("decode_requests") - pl.col("new")
    )
    fresh = _sum_block(known, pl.col("is_behind")).with_columns(tokens=pl.col("new"))
    return pl.concat([held, fresh]).filter(pl.col("tokens") > 0)


def _sum_block(known: pl.DataFrame, counts: pl.Expr) -> pl.DataFrame:
    """Each block's parts over the steps of it that count, with the step that ends it."""
    last = pl.col("decodes")
    return (
        known.filter(counts)
        .group_by("rank", "block", maintain_order=True)
        .agg(
            (pl.col("usual") - pl.col("idle")).filter(last).sum().alias("model"),
            (pl.col("idle") - pl.col("lacking")).filter(last).sum().alias("idle in the model"),
            pl.col("lacking").filter(last).sum().alias(_UNKNOWN),
            (pl.col("own") - pl.col("usual")).filter(last).sum().alias("prompts beside it"),
            pl.col("own").filter(~last).sum().alias("prompts before it"),
            *(pl.col(column).sum().alias(name) for name, column in _GAPS.items()),
            pl.col("decode_requests").filter(last).sum(),
            pl.col("new").filter(last).sum(),
            closed=last.any(),
        )
        .filter("closed")
    )
