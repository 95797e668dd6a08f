"""What excerpts say of a run: one finding of those that are the same, with costs of the whole.

A cost is the sum of what the excerpts have, each as often as it stands in the run, times how much
of its class of time (idle, copies, communication, compute) the run has beside what the excerpts
make of it. Its range is what the same sum gives without each of the excerpts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sightline.core import registry
from sightline.core.model.declare import Finding, Price
from sightline.core.units import format_ns
from sightline.diagnosis.build import NOTABLE_PCT, grade_severity
from sightline.diagnosis.sampling.choose import IDLE, PAUSES, SUMS, Sample
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY

# The classes of time that a subject's costs are of; those of others are of the run's length.
_CLASSES = {
    "idle": (IDLE, PAUSES),
    "copies": (COPY,),
    "communication": (COMMUNICATION,),
    "kernels": (COMPUTE,),
}
# Excerpts that agree by chance say nothing of how much others differ: so much is left on either
# side of what is said (ours, by scripts/excerpts_proof.py).
LEAST_SPREAD = 0.10
# Totals that the excerpts miss by more are of something that lies in none of them.
_MOST_RATIO = 1.25
# What is less of the run is not worth a word (ours).
_LEAST_PCT = 1.0
# What one excerpt has that stands less often in the run may have happened once.
_RECURS = 2.0
_GRADES = ("info", "warning", "critical")
_SIDES = ("cost", "gain")


class Asked(NamedTuple):
    """What one excerpt's rules found, and how long its devices' windows are, ns: all, the longest.

    `once` are the same findings, those that lie in one of its steps marked so. Lengths are of what
    the findings' costs are of: of the program without its recorder, too.
    """

    found: list[Finding]
    once: list[Finding]
    windows_ns: int
    longest_ns: int


def merge_findings(sample: Sample, asked: Sequence[Asked]) -> list[Finding]:
    """One finding of each kind that any excerpt has; a rule abstains where it does in all."""
    kinds: dict[tuple[object, ...], dict[int, Finding]] = {}
    singles: dict[tuple[object, ...], Finding] = {}
    for place, each in enumerate(asked):
        seen: dict[tuple[object, ...], int] = {}
        for found, once in zip(each.found, each.once, strict=True):
            key = _identify(found)
            seen[key] = seen.get(key, 0) + 1
            kinds.setdefault((*key, seen[key]), {})[place] = found
            singles[(*key, seen[key])] = once
    judged = {f.rule for same in kinds.values() for f in same.values() if not f.abstained}
    merged = []
    for key, same in kinds.items():
        if len(same) == 1 and sample.excerpts[(only := next(iter(same)))].weight < _RECURS:
            same = {only: singles[key]}
        first = next(iter(same.values()))
        if first.abstained:
            if len(same) == len(asked) and first.rule not in judged:
                merged.append(first)
        elif (one := _merge(sample, asked, same)) is not None:
            merged.append(one)
    return merged


def _identify(found: Finding) -> tuple[object, ...]:
    """What findings of several excerpts share that are about one thing."""
    about = (found.where.get(name) for name in ("kernel", "op", "device_id", "stream_id"))
    # A title may count something.
    return found.rule, found.abstained, re.sub(r"\d[\d,.]*", "#", found.title), *map(str, about)


def _merge(sample: Sample, asked: Sequence[Asked], same: Mapping[int, Finding]) -> Finding | None:
    weights = sample.weights[0]
    place = max(same, key=lambda i: (weights[i] * ((same[i].cost_ns or 0) + 1), -i))
    shown = same[place]
    excerpt = sample.excerpts[place]
    where = {**shown.where, "excerpt": list(excerpt.names), "excerpts": len(same)}
    prices: dict[str, Price | None] = {"cost": shown.cost, "gain": shown.gain}
    ranges: dict[str, tuple[float, float] | None] = dict.fromkeys(_SIDES)
    for side in _SIDES:
        price = prices[side]
        if price is None:
            continue
        if price.unit != "ns":  # of memory or energy, which no step adds to
            known = [p.amount for f in same.values() if (p := getattr(f, side)) is not None]
            ranges[side] = min(known), max(known)
            continue
        prices[side], ranges[side] = _scale(sample, asked, same, side)
    cost, gain = prices["cost"], prices["gain"]
    if cost is not None and gain is not None and gain.unit == cost.unit:
        gain = gain._replace(amount=min(gain.amount, cost.amount))
    most = max((p.pct or 0.0 for p in (cost, gain) if p is not None), default=None)
    is_time = any(p is not None and p.unit == "ns" and p.amount for p in (shown.cost, shown.gain))
    if is_time and most is not None and most < _LEAST_PCT:
        return None
    direct = shown.direct_ns
    if direct is not None and shown.cost_ns and cost is not None:
        direct = round(direct * cost.amount / shown.cost_ns)
    return replace(
        shown,
        cost=cost,
        gain=gain,
        evidence=(*_name_ranges(ranges, len(asked), shown), *shown.evidence),
        where=where,
        severity=_lower(shown, most) if is_time else shown.severity,
        direct_ns=direct,
        cost_range=ranges["cost"],
        gain_range=ranges["gain"],
    )


def _name_ranges(
    ranges: Mapping[str, tuple[float, float] | None], excerpts: int, found: Finding
) -> Iterator[str]:
    """In a line, between what the cost and the gain of the whole run lie."""
    parts = [
        f"{verb} {format_ns(round(ends[0]))} to {format_ns(round(ends[1]))}"
        for verb, side in (("costs", "cost"), ("could save", "gain"))
        if (ends := ranges[side]) is not None and _take_ns(found, side)
    ]
    if parts:
        yield f"by the spread of {excerpts} excerpts it {' and '.join(parts)}"


def _lower(found: Finding, most_pct: float | None) -> str:
    """The rule's word, but no louder than what the whole run loses to it."""
    own = max(found.cost_pct or 0.0, found.gain_pct or 0.0)
    if most_pct is None or grade_severity(most_pct) == grade_severity(own):
        return found.severity
    return min(found.severity, grade_severity(most_pct), key=_GRADES.index)


def _scale(
    sample: Sample, asked: Sequence[Asked], same: Mapping[int, Finding], side: str
) -> tuple[Price, tuple[float, float]]:
    """The price of the whole run, and its range, in ns."""
    classes = _list_classes(next(iter(same.values())).rule)
    windows = [a.windows_ns if side == "cost" else a.longest_ns for a in asked]
    amounts = [_take_ns(same.get(i), side) for i in range(len(asked))]
    known = [a / w for a, w in zip(amounts, windows, strict=True) if a is not None and w]
    # What a rule does not say of an excerpt may still be there, up to where it is worth a word.
    silent = min(max(known, default=0.0), NOTABLE_PCT / 100)
    low, usual, high = (
        [a if a is not None else share * w for a, w in zip(amounts, windows, strict=True)]
        for share in (0.0, silent / 2, silent)
    )
    whole = _add(sample.weights[0], windows)
    amount = _estimate(sample, sample.weights[0], usual, classes)
    all_said = all(a is not None for a in amounts)
    ends = [
        _estimate(sample, weights, values, classes) * whole / max(_add(weights, windows), 1)
        for weights in sample.weights
        for values in ((usual,) if all_said else (low, high))
    ]
    ends.append(amount)
    span = min(ends) * (1 - LEAST_SPREAD), min(max(ends) * (1 + LEAST_SPREAD), whole)
    price = Price(round(min(amount, whole)), "ns", 100 * min(amount, whole) / max(whole, 1))
    return price, (float(round(max(span[0], 0.0))), float(round(max(span[1], price.amount))))


def _take_ns(found: Finding | None, side: str) -> float | None:
    """A finding's cost or gain; None where the excerpt has none."""
    price: Price | None = None if found is None else getattr(found, side)
    return None if price is None or price.unit != "ns" else price.amount


def _list_classes(rule: str) -> tuple[str, ...]:
    subject = registry.subject_of("rules", rule.replace("-", "_"))
    return _CLASSES.get("" if subject is None else subject.name, ())


def _estimate(
    sample: Sample, weights: Sequence[float], values: Sequence[float], classes: Sequence[str]
) -> float:
    """The weighted sum, by how much more of these classes the run has than the excerpts make."""
    made = sum(
        weight * excerpt.sums[SUMS.index(name)]
        for weight, excerpt in zip(weights, sample.excerpts, strict=True)
        for name in classes
    )
    known = sum(sample.totals[SUMS.index(name)] for name in classes)
    ratio = known / made if made > 0 and known > 0 else 1.0
    return _add(weights, values) * min(max(ratio, 1 / _MOST_RATIO), _MOST_RATIO)


def _add(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True))
