"""What all views of jobs show, as plain data: jobs, their problems, and the waste of each owner.

A job may be known from several sources (accounting and an archive): each row is one source's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.model.run import Run

BY = ("user", "project", "cluster")
_SUMS = (
    "gpu_hours", "wasted_gpu_hours", "core_hours", "wasted_core_hours", "energy_j",
    "wasted_energy_j",
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """Which jobs are asked for; None and empty mean all. Times are ns since 1970."""

    users: Sequence[str] = ()
    projects: Sequence[str] = ()
    states: Sequence[str] = ()
    rules: Sequence[str] = ()
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True)
class Figures:
    """The jobs that were chosen, what is wrong with them, and what could not be judged."""

    jobs: pl.DataFrame
    problems: pl.DataFrame
    unjudged: pl.DataFrame

    def sum_waste(self, by: str) -> pl.DataFrame:
        """A row of each owner: jobs, those with problems, hours and energy given and wasted."""
        return (
            self.jobs.group_by(pl.col(by).fill_null("unknown").alias(by), maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("jobs"),
                (pl.col("problems") > 0).sum().cast(pl.Int64).alias("with_problems"),
                *[pl.col(name).sum() for name in _SUMS],
            )
            .sort("wasted_gpu_hours", "wasted_core_hours", by, descending=[True, True, False])
        )

    def sum_problems(self) -> pl.DataFrame:
        """A row of each rule: how many jobs it found, and the hours that it took."""
        sums = ("gpu_hours", "core_hours", "energy_j")
        return (
            self.problems.group_by("rule", maintain_order=True)
            .agg(pl.len().cast(pl.Int64).alias("jobs"), *[pl.col(name).sum() for name in sums])
            .sort("gpu_hours", "core_hours", "jobs", descending=True)
        )

    def total(self) -> dict[str, float]:
        """Hours and joules of all jobs, given and wasted."""
        return {name: float(self.jobs.get_column(name).sum() or 0) for name in _SUMS}


def collect_figures(run: Run, choice: Choice, extra: pl.DataFrame | None = None) -> Figures:
    """What is shown of a run's jobs. `extra` are problems that rules of one's own found."""
    jobs = run.ask("job_use")
    said = run.ask("job_problems")
    if extra is not None and extra.height:
        said = pl.concat([said, extra])
        more = extra.filter("judged").group_by("job_row_id").agg(more=pl.len().cast(pl.Int64))
        jobs = (
            jobs.join(more, on="job_row_id", how="left", maintain_order="left")
            .with_columns(problems=pl.col("problems") + pl.col("more").fill_null(0))
            .drop("more")
        )
    for column, wanted in (
        ("user", choice.users), ("project", choice.projects), ("state", choice.states),
    ):  # fmt: skip
        if wanted:
            jobs = jobs.filter(pl.col(column).is_in(list(wanted)))
    # A job counts where it ran in the span, if only in part; one without times always does.
    end = pl.col("start_ns") + pl.col("duration_ns").fill_null(0)
    if choice.since_ns is not None:
        jobs = jobs.filter((end >= choice.since_ns).fill_null(value=True))
    if choice.until_ns is not None:
        jobs = jobs.filter((pl.col("start_ns") < choice.until_ns).fill_null(value=True))
    said = said.join(jobs.select("job_row_id"), on="job_row_id", how="semi", maintain_order="left")
    if choice.rules:
        said = said.filter(pl.col("rule").is_in(list(choice.rules)))
        found = said.filter("judged").select("job_row_id")
        jobs = jobs.join(found, on="job_row_id", how="semi", maintain_order="left")
    return Figures(jobs, said.filter("judged"), said.filter(~pl.col("judged")))


def sort_jobs(jobs: pl.DataFrame, by: str) -> pl.DataFrame:
    """By what a person asks for; the largest, or the latest, first."""
    columns = {
        "wasted": ["wasted_gpu_hours", "wasted_core_hours", "problems"],
        "hours": ["gpu_hours", "core_hours"],
        "start": ["start_ns"],
        "length": ["duration_ns"],
    }[by]
    return jobs.sort(columns, descending=True, nulls_last=True, maintain_order=True)


def title_of(rule: str) -> str:
    """A rule's title for a person; of a rule of one's own its tag."""
    names = registry.list_names("rules")
    module = rule.replace("-", "_")
    return str(registry.load("rules", module).RULE.title) if module in names else rule


def to_plain(figures: Figures, by: str) -> dict[str, Any]:
    """What programs read (`--json`)."""
    drop = ("rank", "recording_id", "job_row_id")
    return {
        "jobs": figures.jobs.drop(drop).to_dicts(),
        "problems": figures.problems.drop(drop).to_dicts(),
        "not_judged": figures.unjudged.drop(drop).to_dicts(),
        "waste": figures.sum_waste(by).to_dicts(),
        "total": figures.total(),
    }
