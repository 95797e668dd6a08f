"""All that is known of many ranks, for those who show it, and which of them are worth a look."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.fleet.heat import list_excess
from sightline.fleet.job import PARTS, Job, compose_job, trace_path
from sightline.fleet.read import Reduced
from sightline.fleet.stragglers import BUBBLE, Verdict, find_stragglers

# Timelines under one another that a person compares (ours): each is some dozen rows.
MOST_SHOWN = 4


@dataclass(frozen=True)
class Answer:
    """The job of many ranks with the verdict; `path` is its critical path by rank and part.

    `excess` has a row for each rank: what it has beyond its peers (`list_excess`), its recording,
    and the `cause` for which it costs the job 1 % or more, where there is one. `lost` are
    recordings without a rank, and why.
    """

    job: Job
    verdict: Verdict
    excess: pl.DataFrame
    path: pl.DataFrame
    lost: list[tuple[str, str]]


def judge_ranks(reduced: Reduced) -> Answer:
    """The answer of reduced ranks."""
    job = compose_job(reduced.ranks)
    verdict = find_stragglers(job)
    path = trace_path(job).group_by("rank", "part").sum()
    named = (
        verdict.stragglers.filter(pl.col("cause") != BUBBLE)
        .select("cause", rank="ranks")
        .explode("rank", empty_as_null=True)
        .unique("rank", keep="first", maintain_order=True)
    )
    places = pl.DataFrame(
        list(reduced.places.items()),
        schema={"rank": pl.Int64, "recording": pl.String},
        orient="row",
    )
    excess = list_excess(job).join(named, on="rank", how="left").join(places, on="rank", how="left")
    if job.pipeline is not None:
        stages = job.pipeline.rows.select("rank", "stage", "bubble_ns")
        excess = excess.join(stages, on="rank", how="left")
    return Answer(
        job,
        verdict,
        excess.sort("rank"),
        path.sort("ns", "rank", "part", descending=[True, False, False]),
        reduced.lost,
    )


def list_outliers(answer: Answer) -> list[int]:
    """Ranks that a row of several must not hide: those named alone, the worst first."""
    named = answer.verdict.stragglers.get_column("ranks").to_list()
    return list(dict.fromkeys(ranks[0] for ranks in named if len(ranks) == 1))


def choose_ranks(answer: Answer, most: int = MOST_SHOWN) -> list[int]:
    """Ranks whose timelines tell most: the worst, and one that is like most, in order.

    Of a pipeline without a straggler one of each stage.
    """
    worst = list_outliers(answer)[: most - 1]
    pipeline = answer.job.pipeline
    if pipeline is not None and not worst:
        first = pipeline.rows.filter(pl.col("replica") == 0).sort("stage")
        return first.get_column("rank").head(2 * most).to_list()
    excess = answer.excess.with_columns(sum=pl.sum_horizontal(f"{part}_ns" for part in PARTS))
    usual = excess.filter(~pl.col("rank").is_in(worst)).sort("sum", "rank")
    if usual.height:
        worst.append(int(usual.item(usual.height // 2, "rank")))
    return sorted(worst)
