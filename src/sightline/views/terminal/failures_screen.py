"""Failures over time for a terminal: causes and rates, what a job must expect, checkpoints."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sightline.core.text import clean_text
from sightline.core.units import format_several
from sightline.health.failures.causes import Cause
from sightline.health.failures.jobs import Matched, Struck
from sightline.health.failures.rates import Interval, bound_mtbf

_HOURS = ((24 * 365.25, "years"), (24.0, "days"), (1.0, "h"), (1 / 60, "min"), (1 / 3600, "s"))


class Checkpoint(NamedTuple):
    """A way to choose the interval: work between checkpoints in hours, and the goodputs."""

    name: str
    hours: float
    predicted: float
    simulated: float


def format_hours(hours: float) -> str:
    """3.1 h, 16.4 years."""
    return format_range(hours, hours)


def format_range(low: float, high: float) -> str:
    """14.3 to 18.8 years: two lengths in one unit, that of the shorter one."""
    size, unit = next((pair for pair in _HOURS if low >= pair[0]), _HOURS[-1])
    texts = [
        "any" if value == math.inf else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        for value in (low / size, high / size)
    ]
    return f"{' to '.join(dict.fromkeys(texts))} {unit}"


def draw_causes(counts: Mapping[Cause, int], gpus: int, hours: float) -> Iterator[str]:
    """All interruptions, then each cause, the most frequent first, then the categories."""
    total = sum(counts.values())
    each = f", one each {format_hours(hours / total)}" if total else ""
    yield (
        f"{format_several(total, 'interruption')} of {gpus:,} GPUs in {format_hours(hours)}{each}"
    )
    yield ""
    yield f"{'component':<31}{'category':<13}{'count':>6}{'share':>8}  MTBF per GPU (90 %)"
    for cause, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        mtbf = bound_mtbf(count, gpus * hours)
        yield (
            f"{clean_text(cause.component)[:30]:<31}{clean_text(cause.category)[:12]:<13}"
            f"{count:>6,}{count / total:>8.1%}  {format_range(mtbf.low, mtbf.high)}"
        )
    by_category: dict[str, int] = {}
    for cause, count in counts.items():
        by_category[cause.category] = by_category.get(cause.category, 0) + count
    yield ""
    parts = sorted(by_category.items(), key=lambda item: (-item[1], item[0]))
    shares = ", ".join(f"{clean_text(name)} {count / total:.1%}" for name, count in parts)
    yield from textwrap.wrap(f"By category: {shares}", 80)


_MOST_JOBS = 20


def draw_struck(matched: Matched) -> Iterator[str]:
    """The jobs that failures struck, those that no log explains, and what struck none."""
    ended = [one for one in matched.struck if one.is_ended]
    yield f"{format_several(len(ended), 'job')} ended by a failure of a node"
    if matched.struck:
        yield ""
        yield f"{'job':<14}{'state':<12}{'GPUs':>6}  {'node':<16}{'component':<20}{'lost':>10}"
    ranked = sorted(matched.struck, key=lambda one: -(one.lost_gpu_hours or -1))
    yield from map(_draw_struck, ranked[:_MOST_JOBS])
    if len(ranked) > _MOST_JOBS:
        yield f"and {len(ranked) - _MOST_JOBS:,} more: --json has all"
    if ended:
        lost = sum(one.lost_gpu_hours or 0 for one in ended)
        yield from textwrap.wrap(
            f"Lost: at most {lost:,.1f} GPU hours, all that these jobs had computed; less where "
            "they wrote checkpoints.",
            80,
        )
    if matched.unexplained:
        names = ", ".join(clean_text(job.job_id) for job in matched.unexplained[:8])
        more = len(matched.unexplained) - 8
        rest = f" and {more:,} more" if more > 0 else ""
        yield from textwrap.wrap(
            f"Ended by their nodes, and no log that was given says why: {names}{rest}.", 80
        )
    if matched.elsewhere:
        count = format_several(len(matched.elsewhere), "incident")
        yield f"{count} where no job of these ran, or without a time."


def _draw_struck(one: Struck) -> str:
    lost = "-" if one.lost_gpu_hours is None else f"{one.lost_gpu_hours:,.1f} h"
    state = clean_text(one.job.state) if one.is_ended else "went on"
    gpus = "-" if one.job.gpus is None else f"{one.job.gpus:,}"
    return (
        f"{clean_text(one.job.job_id)[:13]:<14}{state[:11]:<12}{gpus:>6}  "
        f"{clean_text(one.incident.node)[:15]:<16}"
        f"{clean_text(one.incident.cause.component)[:19]:<20}{lost:>10}"
    )


def draw_shape(shape: Interval | None) -> Iterator[str]:
    """What the times between failures say."""
    if shape is None:
        yield "Times between failures are not known well enough to fit their distribution."
        return
    if shape.low > 1:
        text = "failures are evenly spaced: something wears out, or is repaired at intervals"
    elif shape.high < 1:
        text = "failures are clustered: one cause recurs before it is removed"
    else:
        text = "failures come at random, as the intervals here assume"
    figures = f"{shape.value:.2f} ({shape.low:.2f} to {shape.high:.2f})"
    yield from textwrap.wrap(f"Weibull shape of the times between failures {figures}: {text}.", 80)


def draw_job(gpus: int, hours: float, expected: Interval) -> Iterator[str]:
    """What a job must expect."""
    none = math.exp(-expected.value)
    yield from textwrap.wrap(
        f"A job of {gpus:,} GPUs for {format_hours(hours)}: {expected.value:.1f} interruptions "
        f"expected ({expected.low:.1f} to {expected.high:.1f}), none with a chance of {none:.1%}.",
        80,
    )


def draw_checkpoints(rows: Sequence[Checkpoint], cost: float, restart: float) -> Iterator[str]:
    """Intervals and goodput; cost and restart in hours."""
    yield (
        f"Checkpoints: writing one takes {format_hours(cost)}, a restart {format_hours(restart)}"
    )
    yield f"  {'chosen by':<24}{'each':>10}{'goodput':>10}{'simulated':>12}"
    for row in rows:
        yield (
            f"  {row.name:<24}{format_hours(row.hours):>10}"
            f"{row.predicted:>10.2%}{row.simulated:>12.2%}"
        )
