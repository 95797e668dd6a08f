"""Findings about one kernel that say once more what another one explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sightline.core.model.declare import Finding, Rule
from sightline.core.text import begin_lower

_LOUD = ("critical", "warning", "info")
# Gains that differ by less are one and the same time: what bounds them is the same (ours: estimates
# are printed with three digits).
_SAME = 0.01


def absorb_symptoms(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """The findings without those that another one about the same kernel explains (`Rule.explains`).

    A finding explains another one where it gains at least half as much and is no less severe: the
    time is the same, and the cause says what to change. A remark, which gains nothing, is explained
    by what says what limits the run, too. The cause names what it took in, unless it says it all.
    """
    taken: dict[int, int] = {}
    places: dict[str, list[int]] = {}
    for i, f in enumerate(found):
        if not f.abstained and "kernel" in f.where:
            places.setdefault(f.where["kernel"], []).append(i)
    for here in places.values():
        # The largest first: it takes in what is explained by others, too.
        for i in sorted(here, key=lambda i: -(found[i].gain_ns or 0)):
            declared = rules.get(found[i].rule)
            if declared is None or i in taken:
                continue
            for j in here:
                if found[j].rule in declared.explains and _is_most(found[i], found[j]):
                    taken.setdefault(j, i)
    left = [
        _name_symptoms(f, [found[j] for j in sorted(taken) if _find_root(taken, j) == i])
        for i, f in enumerate(found)
        if i not in taken
    ]
    return _merge_same_time(left, rules)


def _merge_same_time(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """Findings about one kernel that gain one and the same time: one, with several ways out.

    The first of them is the loudest, then the one that explains most others.
    """
    order = sorted(
        (i for i, f in enumerate(found) if f.gain_ns and not f.abstained and _is_profiled(f)),
        key=lambda i: (
            _LOUD.index(found[i].severity),
            -len(rules[found[i].rule].explains) if found[i].rule in rules else 0,
            i,
        ),
    )
    ways: dict[int, list[Finding]] = {}
    merged: set[int] = set()
    for place, i in enumerate(order):
        if i in merged:
            continue
        for j in order[place + 1 :]:
            if j not in merged and _is_same_time(found[i], found[j]):
                merged.add(j)
                ways.setdefault(i, []).append(found[j])
    return [_add_ways(f, ways.get(i, ())) for i, f in enumerate(found) if i not in merged]


def _is_profiled(found: Finding) -> bool:
    """Whether it is about a profiled kernel: these alone carry the share of an estimate."""
    return "estimate_pct" in found.where


def _is_same_time(one: Finding, other: Finding) -> bool:
    gains = sorted((one.gain_ns or 0, other.gain_ns or 0))
    return (
        one.where["kernel"] == other.where["kernel"]
        and one.severity == other.severity
        and gains[1] - gains[0] <= _SAME * gains[1]
    )


def _add_ways(found: Finding, ways: Sequence[Finding]) -> Finding:
    lines = tuple(f"another fix for the same time: {w.title.split(':')[0]}: {w.fix}" for w in ways)
    return replace(found, evidence=(*found.evidence, *lines)) if lines else found


def _find_root(taken: Mapping[int, int], place: int) -> int:
    """What took in this finding, or what took that one in."""
    while place in taken:
        place = taken[place]
    return place


def _is_most(cause: Finding, symptom: Finding) -> bool:
    if symptom.gain is None and cause.states_limit:
        return True
    return bool(cause.gain_ns) and (
        2 * (cause.gain_ns or 0) >= (symptom.gain_ns or 0)
        and _LOUD.index(cause.severity) <= _LOUD.index(symptom.severity)
    )


def _name_symptoms(cause: Finding, symptoms: Sequence[Finding]) -> Finding:
    if not symptoms or cause.states_limit:
        return cause
    titles = dict.fromkeys(f.title.split(":")[0] for f in symptoms)
    line = f"also visible as: {', '.join(map(begin_lower, titles))}"
    return replace(cause, evidence=(*cause.evidence, line))
