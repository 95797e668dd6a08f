"""What a person reads of an exercise: its lesson, and predicted beside realised gain."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from sightline.core.units import format_ns, format_pct, format_several
from sightline.errors import RequestError
from sightline.lab.exercises import Exercise, Measured
from sightline.lab.gains import Estimate, compare_gains, estimate
from sightline.lab.trial import Trial

_WIDTH = 79


def render_lesson(exercise: Exercise, width: int) -> str:
    """The exercise's page, its prose wrapped. Raises RequestError where it has none."""
    page = exercise.folder / "README.md"
    if not page.is_file():
        raise RequestError(f"'{exercise.name}' has no lesson", why=f"there is no {page}")
    # Blocks between fences stay as they are: they are commands, code and tables.
    pieces = re.split(r"^(```.*?^```)$", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return "".join(
        piece if number % 2 else _wrap_prose(piece, width) for number, piece in enumerate(pieces)
    )


def _wrap_prose(text: str, width: int) -> str:
    paragraphs = (textwrap.fill(p, width) if p.strip() else p for p in text.split("\n\n"))
    return "\n\n".join(paragraphs)


def describe_trial(
    exercise: Exercise, trials: Sequence[Trial], measured: Measured
) -> dict[str, Any]:
    """What `render_trial` says, as data: times in ns, gains in % of a step."""
    return {
        "exercise": exercise.name,
        "where": measured.where,
        "planted": exercise.finding,
        "first_findings": [
            t.prediction.finding.rule if t.prediction.finding else None for t in trials
        ],
        "planted_first": measured.first,
        "baseline_step_ns": [t.prediction.step_ns for t in trials],
        "improved_step_ns": [t.improved_ns for t in trials],
        "predicted_gain_pct": list(measured.predicted_pct),
        "realised_gain_pct": list(measured.realised_pct),
        "error_pct": compare_gains(measured.predicted_pct, measured.realised_pct),
    }


def render_trial(exercise: Exercise, trials: Sequence[Trial], measured: Measured) -> str:
    """The outcome on one screen."""
    return "\n".join(_list_lines(exercise, trials, measured)) + "\n"


def _list_lines(exercise: Exercise, trials: Sequence[Trial], measured: Measured) -> Iterator[str]:
    times = len(trials)
    yield f"{exercise.name} · {measured.where} · {format_several(times, 'repetition')}"
    yield ""
    first = trials[0].prediction.finding
    if first is None:
        yield "The report of the baseline has no finding."
    else:
        yield f"First finding  {first.title}  ({first.rule})"
        yield from _wrap(first.summary)
        yield from _wrap(f"Fix: {first.fix}")
    if exercise.finding is not None:
        yield f"  The planted cause, {exercise.finding}, came first in {measured.first} of {times}."
    yield ""
    before = estimate([t.prediction.step_ns for t in trials])
    after = estimate([t.improved_ns for t in trials])
    yield f"A step     {format_ns(before.mean)} before, {format_ns(after.mean)} after the fix"
    yield f"Predicted  {_say_gain(estimate(measured.predicted_pct))}"
    yield f"Realised   {_say_gain(estimate(measured.realised_pct))}"
    error = compare_gains(measured.predicted_pct, measured.realised_pct)
    if error is None:
        yield "Error      none can be given: the fix gained nothing here"
    else:
        yield f"Error      the prediction is {abs(error):.0f} % {'above' if error > 0 else 'below'}"
    if exercise.why_not_predicted:
        yield from _wrap(exercise.why_not_predicted)


def _say_gain(gain: Estimate) -> str:
    text = f"{format_pct(gain.mean)} of a step"
    if gain.high > gain.low:
        text += f"  (95 % interval {gain.low:.1f} to {gain.high:.1f})"
    return text


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
