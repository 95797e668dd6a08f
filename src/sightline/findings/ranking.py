"""From what all rules say to one list: one problem once, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from sightline.core import registry
from sightline.core.model.declare import Finding, Rule
from sightline.core.registry import OF_ENERGY, OF_KERNELS, OF_MEMORY, OF_WINDOW
from sightline.core.units import format_ns
from sightline.findings.build import LOWER

# Nothing gains much below so much of the window: what the run as a whole is bound by comes first.
# XProf's overview calls a program input-bound from 10 % of the step on. Nor does what is uncertain:
# of a recording that lacks what would tell, that its kernels take most of the time is known.
MAJOR_PCT = 10.0
# A recording of fewer operations shows no pattern (ours: one training step launches hundreds).
_LEAST_OPS = 10


def rank_findings(
    found: Iterable[Finding],
    rules: Iterable[Rule],
    gate: pl.DataFrame,
    *,
    operations: int,
    window_ns: int,
) -> list[Finding]:
    """Merged and graded: the largest gain first, then remarks, then abstentions.

    `operations` and `window_ns` say how much was recorded: the device operations, and the longest
    window. Of a handful of operations nothing is more than a note.

    Gains of the program's window come before those of profiled kernels, which a kernel profiler
    runs one by one, with other clocks: the two are no measure for each other. Of findings about one
    kernel the cause comes before its symptom (`Rule.explains`): the tree is that of Nsight
    Compute's rules, where stall reasons and occupancy are children of the issue slots, and those of
    the speed of light (2024.1, `get_parent_rules_identifiers` in sections/*.py).
    """
    declared = {rule.name: rule for rule in rules}
    merged = (_bound_gain(f, window_ns) for f in _merge_lateness(list(found), declared))
    graded = [_grade(_explain_cost(f), gate) for f in merged]
    if 0 < operations < _LEAST_OPS:
        graded = [f if f.abstained else replace(f, severity="info") for f in graded]
    led = _lead_by_causes(graded, declared)
    loud = [f.gain_ns or 0 for f in graded if f.severity != "info" and not _is_unsure(f)]
    bound = 100 * max(loud, default=0) < MAJOR_PCT * max(window_ns, 1)
    order = sorted(
        range(len(graded)),
        key=lambda i: (
            (f := graded[i]).abstained,
            not (bound and f.states_limit),
            f.is_remark,
            f.severity == "info",
            share_of(f.rule) != OF_WINDOW,
            -led[i],
            _count_steps_to_cause(f.rule, declared),
            -_weigh_gain(f),
            -(f.gain_bytes or 0),
            -(f.gain_j or 0),
            f.rule,
        ),
    )
    return [graded[i] for i in order]


def _lead_by_causes(found: Sequence[Finding], rules: Mapping[str, Rule]) -> list[int]:
    """Where each finding stands, by a gain in ns: its own, or that of a symptom that it explains.

    A finding explains most of another one about the same kernel where it gains at least half.
    """
    led = [_weigh_gain(f) for f in found]
    by_kernel: dict[tuple[str, str], list[int]] = {}
    for i, f in enumerate(found):
        if not f.abstained and "kernel" in f.where:
            by_kernel.setdefault((f.rule, f.where["kernel"]), []).append(i)
    # From the root of the tree on: what explains the cause of a symptom leads both.
    nearest_last = sorted(
        (i for places in by_kernel.values() for i in places),
        key=lambda i: -_count_steps_to_cause(found[i].rule, rules),
    )
    for i in nearest_last:
        cause = found[i]
        declared = rules.get(cause.rule)
        for symptom in () if declared is None else declared.explains:
            for j in by_kernel.get((symptom, cause.where["kernel"]), ()):
                is_most = 2 * _weigh_gain(cause) >= _weigh_gain(found[j])
                if is_most and cause.severity == found[j].severity:
                    led[i] = max(led[i], led[j])
    return led


def _count_steps_to_cause(rule: str, rules: Mapping[str, Rule]) -> int:
    """How far above the deepest cause a rule stands in the tree of what explains what."""
    below = [r.name for r in rules.values() if rule in r.explains]
    return 1 + max(_count_steps_to_cause(name, rules) for name in below) if below else 0


def _is_unsure(found: Finding) -> bool:
    """Of the program's window, and of low confidence."""
    return found.confidence == "low" and share_of(found.rule) == OF_WINDOW


def _bound_gain(found: Finding, window_ns: int) -> Finding:
    """The finding with its gain at most its cost, and the share that the gain is.

    A run that is shorter is so on all of its devices: that is lost on each, whoever lost it first.
    """
    gain, cost, cost_pct = found.gain_ns, found.cost_ns, found.cost_pct
    if found.gain_bytes is not None and found.cost_bytes and cost_pct is not None:
        kept = min(found.gain_bytes, found.cost_bytes)
        return replace(found, gain_bytes=kept, gain_pct=cost_pct * kept / found.cost_bytes)
    if found.gain_j is not None and found.cost_j and cost_pct is not None:
        joules = min(found.gain_j, found.cost_j)
        return replace(found, gain_j=joules, gain_pct=cost_pct * joules / found.cost_j)
    if gain is None:
        return found
    if cost is not None:
        gain = min(gain, cost)
    if window_ns and share_of(found.rule) == OF_WINDOW:
        pct = 100 * gain / window_ns
        if cost and cost_pct and cost_pct < pct:
            found = replace(found, cost_ns=round(cost * pct / cost_pct), cost_pct=pct)
    elif cost and cost_pct is not None:
        pct = cost_pct * gain / cost
    else:
        return replace(found, gain_ns=gain)
    return replace(found, gain_ns=gain, gain_pct=pct)


def _explain_cost(found: Finding) -> Finding:
    """The finding with what its cost has beyond the time that it tells of, where that is much."""
    if found.abstained or not found.direct_ns or (found.cost_ns or 0) < 1.1 * found.direct_ns:
        return found
    line = f"that time is {format_ns(found.direct_ns)} of its cost; the rest would end with it"
    return replace(found, evidence=(line, *found.evidence))


def _weigh_gain(found: Finding) -> int:
    """The gain, as far as it does not rest on the replay alone: at most twice what is seen, ns."""
    gain = found.gain_ns or 0
    return gain if found.direct_ns is None else min(gain, 2 * found.direct_ns)


def share_of(rule: str, *, has_timeline: bool = True) -> str:
    """What the costs of a rule are shares of: 'the window', or what a kernel profiler timed.

    `has_timeline`: whether the recording holds a device's operations.
    """
    subject = registry.subject_of("rules", rule.replace("-", "_"))
    whole = OF_WINDOW if subject is None else subject.share_of
    if has_timeline or whole in (OF_MEMORY, OF_ENERGY):
        return whole
    return OF_KERNELS if subject is None else subject.share_without_device


def _merge_lateness(found: list[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """A finding about late ranks takes in what these ranks alone are late with."""
    for i, main in enumerate(found):
        if main.rule not in rules or not rules[main.rule].finds_late_ranks or main.abstained:
            continue
        ranks = set(main.where["late_ranks"])
        mine = [
            f
            for f in found
            if f.rule in rules
            and rules[f.rule].explains_lateness
            and not f.abstained
            and set(f.where["ranks"]) <= ranks
        ]
        if not mine:
            continue
        why = max(mine, key=lambda f: f.gain_ns or 0)
        found[i] = replace(
            _raise_cost(main, why.gain_ns or 0),
            gain_ns=max(main.gain_ns or 0, why.gain_ns or 0),
            cause=f"{why.rule} on these ranks: {why.cause}",
            evidence=(*main.evidence, *(f"{f.rule} there: {f.summary}" for f in mine)),
            fix=f"on these ranks: {why.fix}",
        )
        return [f for f in found if f not in mine]
    return found


def _raise_cost(found: Finding, gain_ns: int) -> Finding:
    """The finding with a cost of at least the gain: what its end gains was lost to it."""
    cost, pct = found.cost_ns, found.cost_pct
    if not cost or pct is None or cost >= gain_ns:
        return found
    return replace(found, cost_ns=gain_ns, cost_pct=pct * gain_ns / cost)


def _grade(found: Finding, gate: pl.DataFrame) -> Finding:
    """One grade less of confidence where the gate says that something is lost."""
    if found.abstained:
        return found
    limits = tuple(gate.filter(pl.col("effect") == "lowers").get_column("text"))
    if not limits:
        return found
    return replace(found, confidence=LOWER[found.confidence], limits=limits)
