"""Many ranks as data, and as lines for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any

import polars as pl

from sightline.core.units import format_count, format_note, format_ns, format_pct, format_several
from sightline.fleet.answer import Answer, list_outliers
from sightline.fleet.heat import Heat, make_heat
from sightline.fleet.job import PARTS, Job
from sightline.fleet.pipeline import Pipeline
from sightline.fleet.stragglers import BUBBLE, SLOW_STAGE, Verdict

_WIDTH = 80
_SHOWN, _ROWS, _BINS, _STAGES = 5, 24, 56, 8
_UNUSUAL = 1.25  # of what the median step loses: those below are all alike (ours)
_SHADES = " ·░▒▓█"


def describe_ranks(answer: Answer) -> dict[str, Any]:
    """All of the answer as data."""
    job, verdict = answer.job, answer.verdict
    return {
        "ranks": len(job.ranks),
        "lost": [{"recording": name, "why": why} for name, why in answer.lost],
        "unmatched": job.unmatched,
        "clocks": None if job.fit is None else job.fit.clocks.to_dicts(),
        "length_ns": verdict.length_ns,
        "ideal_ns": verdict.ideal_ns,
        "slowdown": verdict.slowdown,
        "not_compared": job.why_not_compared,
        "parts": verdict.parts,
        "kinds": verdict.kinds.to_dicts(),
        "few": {"ranks": verdict.few, "gain_ns": verdict.few_ns, "share_pct": verdict.few_pct},
        "stragglers": verdict.stragglers.to_dicts(),
        "steps_by": verdict.steps_by,
        "steps": verdict.steps.to_dicts(),
        "pipeline": None if job.pipeline is None else _describe_pipeline(job.pipeline, verdict),
        "critical_path": answer.path.to_dicts(),
        "excess": answer.excess.to_dicts(),
    }


def write_screen(answer: Answer) -> str:
    """What a person reads first: verdict, steps, pipeline, who is late when, the path."""
    job, verdict = answer.job, answer.verdict
    heat = make_heat(job, rows=_ROWS, bins=_BINS, alone=tuple(list_outliers(answer)[:_SHOWN]))
    lines = [*list_facts(answer), "", *_say_verdict(job, verdict), *_say_steps(verdict)]
    lines += [*_say_pipeline(job, verdict), *_say_heat(heat), *_say_excess(answer.excess)]
    lines += ["", "Critical path through all ranks"]
    for rank, part, ns in answer.path.head(_SHOWN).rows():
        lines.append(f"  {f'rank {rank}':<12}{part:<12}{_share(ns, verdict.length_ns)}")
    return "\n".join(lines)


def _describe_pipeline(pipeline: Pipeline, verdict: Verdict) -> dict[str, Any]:
    return {
        "stages": verdict.stages.to_dicts(),
        "schedule": pipeline.schedule,
        "micro_batches": pipeline.micro_batches,
        "chunks": pipeline.chunks,
        "least_bubble_pct": pipeline.least_pct,
        "ranks": pipeline.rows.to_dicts(),
    }


def _share(ns: int, whole: int) -> str:
    return f"{format_pct(100 * ns / max(whole, 1)):>8}{format_ns(ns):>12}"


def list_facts(answer: Answer) -> list[str]:
    """How much was read and matched, and how clocks stand: a sentence a line."""
    job = answer.job
    n = job.rows.height
    lines = [
        f"{format_several(len(job.ranks), 'rank')} · {format_several(n, 'communication kernel')}, "
        f"{format_count(n - job.unmatched)} matched"
    ]
    if len(job.ranks) == job.components > 1:
        lines.append("no collective of two ranks could be matched: who waits for whom is not known")
    elif job.components > 1:
        lines.append(f"{job.components} sets of ranks share no collective: each on its own clock")
    if job.is_contradictory:
        lines.append("clocks contradict each other: how collectives were matched is wrong")
    elif job.fit is not None:
        worst = job.fit.clocks.get_column("uncertainty_ns").max()
        lines.append(
            f"clocks up to {format_ns(job.fit.find_shift())} apart, ± {format_ns(int(worst))}"  # type: ignore[arg-type]
        )
    if answer.lost:
        name, why = answer.lost[0]
        lines.append(f"lost: {format_several(len(answer.lost), 'recording')}; {name}: {why}")
    return lines


def _wrap(lead: str, parts: list[str]) -> list[str]:
    """Parts behind a lead, on as many lines of 80 columns as they take."""
    lines = [lead + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 > _WIDTH:
            lines.append(" " * len(lead) + part)
        else:
            lines[-1] += f" · {part}"
    return lines


def _say_verdict(job: Job, verdict: Verdict) -> list[str]:
    why = job.why_not_compared
    if why is not None and verdict.stragglers.is_empty():
        return [
            f"job {format_ns(verdict.length_ns)}; its ranks cannot be compared: {why}",
            "whether one of them makes the job longer is unknown",
        ]
    lines = [
        f"job {format_ns(verdict.length_ns)}; without stragglers {format_ns(verdict.ideal_ns)}: "
        f"{verdict.slowdown:.2f} × as long",
        *_wrap("lost to slow ranks  ", _list_losses(verdict)),
        "",
    ]
    if verdict.stragglers.is_empty():
        lines.append("no rank holds the others up by more than 1 % of the job")
    if why is not None:
        lines += textwrap.wrap(f"its ranks cannot be compared: {why}; links can", _WIDTH)
    elif job.compared < len(job.ranks):
        lines.append(
            format_note(
                job.compared,
                f"of {format_several(len(job.ranks), 'rank')} have peers; the others cannot be "
                "compared",
            )
        )
    for number, row in enumerate(verdict.stragglers.head(_SHOWN).iter_rows(named=True), 1):
        left = format_ns(max(verdict.length_ns - row["gain_ns"], 0))
        lines.append(
            f"{number}  {name_ranks(row['ranks'])}: {row['cause']}{_say_when(row, verdict)}"
        )
        cost = f"   costs {format_ns(row['gain_ns'])} ({format_pct(row['gain_pct'])})"
        if row["cause"] == BUBBLE:
            lines.append(f"{cost}: without these waits the job would take {left}")
            continue
        like = "like other stages" if row["cause"] == SLOW_STAGE else "like its peers"
        lines.append(f"{cost}: {like}, the job would take {left}")
        if row["detail"]:
            lines.append(f"   {row['detail']}")
        if row["alone_ns"] > 2 * row["gain_ns"]:
            lines.append(f"   hidden by others: alone it would cost {format_ns(row['alone_ns'])}")
        if row["next_cause"]:
            lines.append(
                f"   next: {name_ranks(row['next_ranks'])}, {row['next_cause']}, "
                f"{format_ns(row['next_gain_ns'])}"
            )
    if len(verdict.few) > 1 and verdict.few_ns > 0:
        lines.append(
            f"The worst 3 % of ranks ({name_ranks(verdict.few).removeprefix('ranks ')}) cost "
            f"{format_ns(verdict.few_ns)}, {format_pct(verdict.few_pct)} of all straggling"
        )
    return lines


def _say_when(row: dict[str, Any], verdict: Verdict) -> str:
    if row["cause"] == BUBBLE:
        return ""
    kind = "persistent" if row["is_persistent"] else "wandering"
    if row["steps"] is None:
        return f", {kind}"
    return f", {kind} ({row['steps']} of {format_several(verdict.steps.height, 'step')})"


def _say_steps(verdict: Verdict) -> list[str]:
    """The steps that straggling makes longest, where steps are known and differ."""
    lost = pl.col("duration_ns") - pl.col("ideal_ns")
    steps = verdict.steps.with_columns(lost=lost)
    unusual = pl.col("lost") > _UNUSUAL * pl.col("lost").median()
    worst = steps.filter(unusual, pl.col("gain_ns") > 0)
    worst = worst.sort("lost", "step", descending=[True, False])
    if worst.is_empty():
        return []
    lines = ["", f"{'Steps that lose most':<22}{'took':>12}{'could take':>12}  because of"]
    for row in worst.head(_SHOWN).iter_rows(named=True):
        lines.append(
            f"  {'step ' + str(row['step']):<20}{format_ns(row['duration_ns']):>12}"
            f"{format_ns(row['ideal_ns']):>12}  {name_ranks(row['ranks'])}, {row['cause']}"
        )
    return lines


def list_pipeline_facts(pipeline: Pipeline) -> list[str]:
    """What the pipeline is, and what its schedule costs if all else is ideal."""
    said = f"Pipeline of {pipeline.stages} stages, {pipeline.schedule or 'no known schedule'}"
    if pipeline.micro_batches:
        said += f", {pipeline.micro_batches} micro-batches a step"
    if pipeline.chunks > 1:
        said += f", {pipeline.chunks} chunks a stage"
    if pipeline.least_pct is None:
        return [said]
    least = format_pct(pipeline.least_pct)
    return [said, f"  this schedule leaves {least} of a step empty at best"]


def _list_losses(verdict: Verdict) -> list[str]:
    """What slow ranks cost the job, by what they were slow at."""
    return [f"{part} {format_ns(ns)}" for part, ns in verdict.parts.items() if ns] or ["no time"]


def _say_pipeline(job: Job, verdict: Verdict) -> list[str]:
    """The pipeline's schedule, and what its stages wait and cost."""
    pipeline = job.pipeline
    if pipeline is None:
        return []
    lines = ["", *list_pipeline_facts(pipeline)]
    head = ("stage", "ranks", "waits", "of the job", "costs the job")
    lines.append("  {:<8}{:>6}{:>12}{:>12}{:>18}".format(*head))
    shown = verdict.stages.sort("bubble_ns", descending=True).head(_STAGES).sort("stage")
    for row in shown.iter_rows(named=True):
        lines.append(
            f"  {row['stage']:<8}{row['ranks']:>6}{format_ns(row['bubble_ns']):>12}"
            f"{format_pct(100 * row['bubble_ns'] / max(verdict.length_ns, 1)):>12}"
            f"{format_ns(row['gain_ns']):>18}"
        )
    return lines


def name_ranks(ranks: list[int]) -> str:
    """Ranks in words: rank 5, ranks 2, 3, or how many from which to which."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 8:
        return f"{format_several(len(ranks), 'rank')} from {ranks[0]} to {ranks[-1]}"
    return "ranks " + ", ".join(map(str, ranks))


def _say_excess(excess: pl.DataFrame) -> list[str]:
    """The ranks with most beyond their peers', by part."""
    parts = [f"{part}_ns" for part in PARTS]
    most = excess.with_columns(sum=pl.sum_horizontal(parts))
    most = most.sort("sum", "rank", descending=[True, False])
    lines = ["", f"{'Beyond its peers':<18}" + "".join(f"{p:>12}" for p in (*PARTS, "waited"))]
    for row in most.head(_SHOWN).iter_rows(named=True):
        cells = (format_ns(row[name]) for name in (*parts, "waited_ns"))
        lines.append(f"  {'rank ' + str(row['rank']):<16}" + "".join(f"{c:>12}" for c in cells))
    return lines


def _say_heat(heat: Heat) -> list[str]:
    if not any(map(any, heat.late)):
        return []
    width = max((len(_label(*r)) for r in heat.ranks), default=0)
    top = len(_SHADES) - 1
    return [
        "",
        f"How late ranks come to collectives, by time ({format_ns(heat.bin_ns)} a column)",
        *(
            f"  {_label(*ranks):>{width}} "
            + "".join(_SHADES[min(top, int(v * top + 0.999))] for v in late)
            for ranks, late in zip(heat.ranks, heat.late, strict=True)
        ),
    ]


def _label(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
