"""The digest of some days as Markdown: for each user or project, or for the whole site."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.units import format_several
from sightline.views.jobs.figures import Figures, sort_jobs, title_of
from sightline.views.jobs.words import (
    write_energy,
    write_hours,
    write_pct,
    write_share,
    write_time,
)

_JOBS = 5
_ESCAPED = {ord(sign): f"\\{sign}" for sign in "\\`*_[]|<>#"}


def write_digest(figures: Figures, of: str) -> str:
    """A section for each owner with waste, the largest first; of 'site' one for all."""
    starts = figures.jobs.get_column("start_ns").drop_nulls()
    span = f"{_day(starts.min())} to {_day(starts.max())}" if starts.len() else "all jobs"
    parts = [f"# Jobs, {span}", *_write_section(figures)]
    if of != "site":
        for row in figures.sum_waste(of).iter_rows(named=True):
            own = figures.jobs.filter(pl.col(of).fill_null("unknown") == row[of])
            keys = own.select("job_row_id")
            chosen = Figures(
                own,
                figures.problems.join(keys, on="job_row_id", how="semi", maintain_order="left"),
                figures.unjudged.join(keys, on="job_row_id", how="semi", maintain_order="left"),
            )
            if chosen.problems.height:
                parts += [
                    "",
                    f"## {_escape(row[of])}",
                    *_write_section(chosen),
                    *_write_next(chosen),
                ]
    else:
        parts += _write_next(figures)
    return "\n".join(parts) + "\n"


def _write_section(figures: Figures) -> Iterator[str]:
    total = figures.total()
    given = [
        f"{write_hours(total[key])} {noun} hours"
        for key, noun in (("gpu_hours", "GPU"), ("core_hours", "core"))
        if total[key]
    ]
    yield ""
    jobs = format_several(figures.jobs.height, "job")
    yield f"{jobs}, {' and '.join(given)}." if given else f"{jobs}."
    wasted = [
        f"{write_hours(total[f'wasted_{key}'])} {noun} hours "
        f"({write_share(total[f'wasted_{key}'], total[key])})"
        for key, noun in (("gpu_hours", "GPU"), ("core_hours", "core"))
        if total[f"wasted_{key}"]
    ]
    energy = write_energy(total["wasted_energy_j"])
    if wasted:
        yield f"**At least {' and '.join(wasted)} were wasted**" + (
            f", {energy}." if energy else "."
        )
    rows = figures.sum_problems()
    if rows.height:
        yield from ["", "| what is wrong | jobs | GPU hours | core hours |", "|---|---:|---:|---:|"]
    for row in rows.iter_rows(named=True):
        hours = f"{write_hours(row['gpu_hours'])} | {write_hours(row['core_hours'])}"
        yield f"| {_escape(title_of(row['rule']))} | {row['jobs']:,} | {hours} |"


def _write_next(figures: Figures) -> Iterator[str]:
    """The costliest jobs, each with its owner's next step."""
    jobs = sort_jobs(figures.jobs.filter(pl.col("problems") > 0), "wasted").head(_JOBS)
    if jobs.is_empty():
        return
    yield from [
        "",
        "| job | GPU % | CPU % | what is wrong | next step |",
        "|---|---:|---:|---|---|",
    ]
    for job in jobs.iter_rows(named=True):
        own = figures.problems.filter(pl.col("job_row_id") == job["job_row_id"])
        worst = own.sort("lost_pct", descending=True, nulls_last=True).row(0, named=True)
        use = f"{write_pct(job['gpu_used_pct'])} | {write_pct(job['cpu_used_pct'])}"
        said = f"{_escape(worst['text'])} | {_escape(worst['fix'])}"
        yield f"| {_escape(job['job_id'])} | {use} | {said} |"


def _day(ns: object) -> str:
    return write_time(ns if isinstance(ns, int) else None)[:10]


def _escape(text: str | None) -> str:
    """Texts of other people, as no Markdown and no HTML."""
    line = " ".join((text or "-").split())
    return "".join(c for c in line if c.isprintable()).translate(_ESCAPED)
