"""Whether a claim is true: yes, no, or cannot be said, from its figure and what that may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sightline.compare.claim_figures import (
    Figure,
    measure_analysis,
    measure_change,
    measure_finding,
    measure_kernels,
    measure_query,
)
from sightline.compare.claims import Claim
from sightline.compare.sample import Sample
from sightline.core.model.run import Run
from sightline.errors import MissingDataError

SCHEMA = "sightline-verify/1"
YES, NO, OPEN = "yes", "no", "cannot be said"
_ROUNDING = 1e-9  # what sums of floating point may be off, of the value


@dataclass(frozen=True)
class Openers:
    """How the paths of a claim become runs, and a run's answer to a query; what doors do."""

    side: Callable[[tuple[str, ...], str | None], list[Sample]]
    run: Callable[[tuple[str, ...], str | None], Run]
    query: Callable[[Run, str], Any]


def verify_claim(claim: Claim, openers: Openers) -> dict[str, Any]:
    """The answer to one claim as plain data: the word, why, and all figures.

    Raises InputError where a path or the claim is wrong; what the recordings do not hold is
    an answer.
    """
    try:
        figure = _measure(claim, openers)
    except MissingDataError as error:
        figure = Figure(None, "", reasons=(error.sentence(),))
    word, why = rule_claim(claim, figure)
    claimed = {"relation": claim.relation, "value": claim.value, "within": claim.within}
    return {
        "schema": SCHEMA,
        "claim": claim.text,
        "answer": word,
        "why": why,
        "claimed": claimed | {"unit": figure.unit},
        "measured": asdict(figure),
        "given": dict(claim.given),
    }


def _measure(claim: Claim, openers: Openers) -> Figure:
    given = claim.given
    window = given.get("window")
    if claim.before:
        sides = [openers.side(side, window) for side in (claim.before, claim.after)]
        return measure_change(given, *sides)
    run = openers.run(claim.recording, window)
    if "finding" in given:
        from sightline.diagnosis.diagnose import diagnose_run

        return measure_finding(given, diagnose_run(run))
    if "kernel" in given:
        return measure_kernels(given, run)
    if "analysis" in given:
        return measure_analysis(given, run)
    return measure_query(openers.query(run, str(given["sql"])))


def rule_claim(claim: Claim, figure: Figure) -> tuple[str, str]:
    """The word and its reason, by what the figure may be.

    No, where nothing that it may be agrees with the claim. Yes, where all that it may be does, or
    where the value itself is shown and agrees. Else it cannot be said.
    """
    if figure.value is None:
        return OPEN, _join(figure, "the recordings do not say it")
    if claim.relation == "exists":
        return (YES, "the finding is there") if figure.value else (NO, "there is no such finding")
    if figure.low is None or figure.high is None:
        return OPEN, _join(figure, "nothing says how sure the figure is")
    least, most = _list_claimed(claim)
    slack = _ROUNDING * max(abs(figure.value), abs(claim.value))
    if figure.high < least - slack or figure.low > most + slack:
        return NO, "the recordings contradict it, whatever the figure is within its bounds"
    if least - slack <= figure.low and figure.high <= most + slack:
        return YES, "the recordings say so"
    states_value = figure.is_shown and claim.relation == "is" and not least <= 0 <= most
    if states_value and least - slack <= figure.value <= most + slack:
        return YES, "the recordings say so"
    if not figure.is_shown:
        return OPEN, _join(figure, "the change is within what runs differ by")
    why = "the figure's bounds allow both the claim and its opposite"
    return OPEN, "; ".join((why, *figure.reasons))


def _list_claimed(claim: Claim) -> tuple[float, float]:
    """The least and the most that agree with a claim."""
    reach = claim.within if claim.relation == "is" else 0.0
    least = float("-inf") if claim.relation == "at_most" else claim.value - reach
    most = float("inf") if claim.relation == "at_least" else claim.value + reach
    return least, most


def _join(figure: Figure, default: str) -> str:
    return "; ".join(figure.reasons) or default
