"""The list of jobs on a screen: what was given and wasted, by whom, by what, and job by job."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.units import format_several
from sightline.views.jobs.figures import Figures, sort_jobs, title_of
from sightline.views.jobs.words import (
    KWH,
    fit,
    write_energy,
    write_hours,
    write_length,
    write_pct,
    write_share,
    write_time,
)

_ID = 48  # columns of the id of a job: of an array with its step, or of another scheduler
_ACRONYMS = {"gpus": "GPUs", "gpu": "GPU", "cpus": "CPUs", "cpu": "CPU"}
_OWNERS, _PROBLEMS = 8, 8


def write_listing(figures: Figures, by: str, order: str, most: int, width: int = 80) -> str:
    """The whole screen."""
    if figures.jobs.is_empty():
        return "No job matches."
    parts = [
        _write_head(figures),
        _write_owners(figures, by),
        _write_problems(figures),
        _write_jobs(figures, order, most, width),
        _write_foot(figures, most),
    ]
    return "\n\n".join(part for part in parts if part)


def _write_head(figures: Figures) -> str:
    jobs, total = figures.jobs, figures.total()
    users = jobs.get_column("user").drop_nulls().n_unique()
    starts = jobs.get_column("start_ns").drop_nulls()
    span = f" · {write_time(starts.min())} to {write_time(starts.max())}" if starts.len() else ""  # type: ignore[arg-type]
    lines = [
        format_several(jobs.height, "job")
        + (f" of {format_several(users, 'user')}" if users else "")
        + span
    ]
    given, lost = [], []
    for noun, whole, wasted in (
        ("GPU hours", "gpu_hours", "wasted_gpu_hours"),
        ("core hours", "core_hours", "wasted_core_hours"),
    ):
        if total[whole]:
            given.append(f"{write_hours(total[whole])} {noun}")
        if total[wasted]:
            share = write_share(total[wasted], total[whole])
            lost.append(f"{write_hours(total[wasted])} {noun} ({share})")
    energy = write_energy(total["energy_j"])
    lines.append("Given   " + (", ".join([*given, *([energy] if energy else [])]) or "not known"))
    wasted = write_energy(total["wasted_energy_j"])
    lines.append(
        "Wasted  "
        + (
            f"at least {', '.join([*lost, *([wasted] if wasted else [])])}"
            if lost
            else "nothing that shows here"
        )
    )
    return "\n".join(lines)


def _write_owners(figures: Figures, by: str) -> str:
    rows = figures.sum_waste(by)
    rows = rows.filter((pl.col("wasted_gpu_hours") > 0) | (pl.col("wasted_core_hours") > 0))
    if rows.is_empty():
        return ""
    with_energy = bool(rows.get_column("wasted_energy_j").sum())
    title = {"user": "Who wastes most", "project": "Projects", "cluster": "Clusters"}[by]
    last = "kWh" if with_energy else ""
    head = f"{title:<22}{'jobs':>6}{'GPU h':>10}{'wasted':>9}{'':>6}{'core h':>10}{'wasted':>9}"
    lines = [f"{head}{last:>8}"]
    for row in rows.head(_OWNERS).iter_rows(named=True):
        lines.append(
            f"{fit(row[by], 21):<22}{row['jobs']:>6,}"
            f"{write_hours(row['gpu_hours']):>10}{write_hours(row['wasted_gpu_hours']):>9}"
            f"{write_share(row['wasted_gpu_hours'], row['gpu_hours']):>6}"
            f"{write_hours(row['core_hours']):>10}{write_hours(row['wasted_core_hours']):>9}"
            f"{_write_last(row, with_energy):>8}"
        )
    if rows.height > _OWNERS:
        lines.append(f"{rows.height - _OWNERS} more: --json")
    return "\n".join(line.rstrip() for line in lines)


def _write_last(row: dict[str, Any], with_energy: bool) -> str:
    """kWh that were wasted where any are known, else the share of the core hours."""
    if with_energy:
        return write_hours((row["wasted_energy_j"] or 0) / KWH)
    return write_share(row["wasted_core_hours"], row["core_hours"])


def _write_problems(figures: Figures) -> str:
    rows = figures.sum_problems()
    if rows.is_empty():
        return ""
    lines = [f"{'What is wrong':<48}{'jobs':>6}{'GPU h':>10}{'core h':>10}"]
    for row in rows.head(_PROBLEMS).iter_rows(named=True):
        lines.append(
            f"{fit(title_of(row['rule']), 47):<48}{row['jobs']:>6,}"
            f"{write_hours(row['gpu_hours']):>10}{write_hours(row['core_hours']):>10}"
        )
    if rows.height > _PROBLEMS:
        lines.append(f"{rows.height - _PROBLEMS} more: --json")
    return "\n".join(lines)


def _write_jobs(figures: Figures, order: str, most: int, width: int) -> str:
    jobs = sort_jobs(figures.jobs, order).head(most)
    if jobs.is_empty():
        return ""
    texts = _find_texts(figures)
    # The id is what `sightline job` takes: it is never cut.
    named = [fit(job, _ID) for job in jobs.get_column("job_id")]
    ids = max(12, 1 + max(map(len, named)))
    room = max(12, width - 50 - ids)
    lines = [
        f"{'Job':<{ids}}{'user':<10}{'size':>9}{'length':>10}{'GPU%':>5}{'CPU%':>5}{'wasted':>9}"
        "  what is wrong"
    ]
    for row, job in zip(jobs.iter_rows(named=True), named, strict=True):
        lines.append(
            f"{job:<{ids}}{fit(row['user'], 9):<10}"
            f"{_write_size(row):>9}{write_length(row['duration_ns']):>10}"
            f"{write_pct(row['gpu_used_pct']):>5}{write_pct(row['cpu_used_pct']):>5}"
            f"{_write_wasted(row):>9}"
            f"  {fit(texts.get(row['job_row_id'], ''), room) if row['job_row_id'] in texts else ''}"
        )
    if any(_write_wasted(row) for row in jobs.iter_rows(named=True)):
        lines.append("n nodes · g GPUs · c cores · gh hours of GPUs · ch hours of cores")
    return "\n".join(line.rstrip() for line in lines)


def _find_texts(figures: Figures) -> dict[int, str]:
    """Of each job the costliest problem's title, short enough for a column."""
    worst = figures.problems.sort("lost_pct", descending=True, nulls_last=True, maintain_order=True)
    found: dict[int, str] = {}
    for row in worst.iter_rows(named=True):
        words = row["rule"].removeprefix("job-").split("-")
        named = [_ACRONYMS.get(word, word) for word in words]
        found.setdefault(row["job_row_id"], " ".join(named))
    return found


def _write_size(row: dict[str, object]) -> str:
    """'2n 8g' of GPUs, '2n 64c' of cores."""
    nodes = f"{row['nodes']}n " if row["nodes"] else ""
    if row["gpus"]:
        return f"{nodes}{row['gpus']}g"
    return f"{nodes}{row['cpus']}c" if row["cpus"] else nodes.strip() or "-"


def _write_wasted(row: dict[str, object]) -> str:
    """'12.3 gh' GPU hours, '1,200 ch' core hours; "" where there are none."""
    for key, sign in (("wasted_gpu_hours", "gh"), ("wasted_core_hours", "ch")):
        if row[key]:
            return f"{write_hours(row[key])} {sign}"  # type: ignore[arg-type]
    return ""


def _write_foot(figures: Figures, most: int) -> str:
    lines = []
    if figures.jobs.height > most:
        lines.append(
            f"{format_several(figures.jobs.height - most, 'more job')}: --most "
            f"{figures.jobs.height}"
        )
    unknown = figures.jobs.filter(pl.col("gpus") > 0, pl.col("gpu_used_pct").is_null()).height
    if unknown:
        lines.append(
            f"Nothing says how the GPUs of {format_several(unknown, 'job')} were used: Jobstats,\n"
            "ClusterCockpit or  --prometheus URL  would."
        )
    worst = sort_jobs(figures.jobs.filter(pl.col("problems") > 0), "wasted")
    if worst.height:
        lines.append(f"Why, and what to do:  sightline job {worst.item(0, 'job_id')} SOURCE")
    return "\n".join(lines)
