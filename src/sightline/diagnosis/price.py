"""What findings cost and gain, said once: after all rules have spoken, before they are ranked.

A rule knows its own problem alone. What holds between findings and for the run as a whole is
applied here, in this order: ranks that are late for a reason of their own are one finding with it;
where a display or a timer sets the rate, or no kernel ran, idle time gains nothing; no gain is
above its cost, nor its share above the cost's; what the recording lost takes confidence; of a
handful of operations nothing is more than a note, but what a single launch shows by its shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from sightline.core import registry
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.registry import OF_ENERGY, OF_JOBS, OF_KERNELS, OF_MEMORY, OF_WINDOW
from sightline.core.units import format_ns
from sightline.diagnosis.build import ELSEWHERE, LOWER, SEEN_FACTOR
from sightline.timeline.copies import LEAST_OPERATIONS

# `Finding.where` holds it where the program is held to a rate: its rounds a second.
HELD = "held_hz"
# `Finding.where` holds it where no kernel ran: there is no work that could begin earlier.
NO_WORK = "no_work"
# `Finding.where` holds it, with the reason, where nothing shows that anything comes again.
TOO_LITTLE = "too_little"
# Ours: a thousand launches' worth; a toy's kernel takes microseconds, whatever its shape.
_MATTERS_NS = 10_000_000
_MOST_NAMED = 4  # ranks in a sentence (ours)
ALL_PCT = 100.05  # what is printed as 100.0 %


def price_findings(
    found: Iterable[Finding],
    rules: Mapping[str, Rule],
    gate: pl.DataFrame,
    *,
    operations: int,
    window_ns: int,
) -> list[Finding]:
    """The findings with the prices, severities and confidence that they are shown with.

    `gate` is the answer of the analysis `quality_gate`; `operations` and `window_ns` say how much
    was recorded: the device operations, and the longest window.
    """
    limits = tuple(gate.filter(pl.col("effect") == "lowers").get_column("text"))
    is_handful = 0 < operations < LEAST_OPERATIONS
    return [
        f if f.abstained else _price(f, limits, is_handful, window_ns)
        for f in _hold_rate(_merge_lateness(list(found), rules), rules)
    ]


def share_of(rule: str, *, has_timeline: bool = True) -> str:
    """What the costs of a rule are shares of: 'the window', or what a kernel profiler timed.

    `has_timeline`: whether the recording holds a device's operations.
    """
    subject = registry.subject_of("rules", rule.replace("-", "_"))
    whole = OF_WINDOW if subject is None else subject.share_of
    if has_timeline or whole in (OF_MEMORY, OF_ENERGY, OF_JOBS):
        return whole
    return OF_KERNELS if subject is None else subject.share_without_device


def _price(found: Finding, limits: tuple[str, ...], is_handful: bool, window_ns: int) -> Finding:
    cost, gain = (_drop_impossible(price) for price in _bound_gain(found, window_ns))
    evidence = found.evidence
    if found.direct_ns and cost is not None and cost.amount >= SEEN_FACTOR * found.direct_ns:
        seen, rest = format_ns(found.direct_ns), format_ns(cost.amount - found.direct_ns)
        why = [line.removeprefix(ELSEWHERE) for line in evidence if line.startswith(ELSEWHERE)]
        line = f"{seen} of its cost is lost there; the other {rest} would disappear with it"
        others = (line for line in evidence if not line.startswith(ELSEWHERE))
        evidence = (": ".join([line, *why]), *others)
    return replace(
        found,
        cost=cost,
        gain=gain,
        evidence=evidence,
        severity="info" if is_handful and not _shows_alone(found) else found.severity,
        confidence=LOWER[found.confidence]
        if limits and not _shows_alone(found)
        else found.confidence,
        limits=limits or found.limits,
    )


def _drop_impossible(price: Price | None) -> Price | None:
    """No share of more than all: such a cost lies beside the window, on the host for example."""
    return price._replace(pct=None) if price and price.pct and price.pct > ALL_PCT else price


def _shows_alone(found: Finding) -> bool:
    """Whether one launch is proof enough: of a kernel that takes so long that it matters."""
    is_long = (found.gain_ns or 0) >= _MATTERS_NS
    return "kernel" in found.where and found.confidence != "low" and is_long


def _bound_gain(found: Finding, window_ns: int) -> tuple[Price | None, Price | None]:
    """Cost and gain: the gain at most the cost, with the share that it is.

    A run that is shorter is so on all of its devices: that is lost on each, whoever lost it first.
    """
    cost, gain = found.cost, found.gain
    if gain is None:
        return cost, None
    if cost is not None:
        gain = gain._replace(amount=min(gain.amount, cost.amount))
    if gain.unit == "ns" and window_ns and share_of(found.rule) == OF_WINDOW:
        pct = 100 * gain.amount / window_ns
        gain = gain._replace(pct=pct)
        if cost and cost.amount and cost.pct and cost.pct < pct:
            cost = Price(round(cost.amount * pct / cost.pct), "ns", pct)
    elif cost and cost.amount and cost.pct is not None:
        gain = gain._replace(pct=cost.pct * gain.amount / cost.amount)
    else:
        gain = gain._replace(pct=None)
    return cost, gain


def _merge_lateness(found: list[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """A finding about late ranks takes in what these ranks alone are late with."""
    for i, main in enumerate(found):
        if main.rule not in rules or not rules[main.rule].finds_late_ranks or main.abstained:
            continue
        ranks = set(main.where["late_ranks"])
        reasons = [
            f
            for f in found
            if f.rule in rules
            and rules[f.rule].explains_lateness
            and not f.abstained
            and set(f.where["ranks"]) <= ranks
        ]
        if not reasons:
            continue
        why = max(reasons, key=lambda f: f.gain_ns or 0)
        gain_ns = why.gain_ns or 0
        found[i] = replace(
            main,
            cost=_raise_cost(main.cost, gain_ns),
            gain=Price(max(main.gain_ns or 0, gain_ns), "ns"),
            cause=f"{why.rule} on these ranks: {why.cause}",
            # Who is late and by what, then why: the screen shows the first few lines.
            evidence=(*main.evidence[:2], *map(_tell_reason, reasons), *main.evidence[2:]),
            fix=f"on {_name_ranks(sorted(ranks))}: {why.fix}",
        )
        return [f for f in found if f not in reasons]
    return found


def _tell_reason(why: Finding) -> str:
    where = "" if why.summary.startswith("On rank") else " there"
    return f"{why.rule}{where}: {why.summary}"


def _name_ranks(ranks: list[int]) -> str:
    if len(ranks) > _MOST_NAMED:
        return "these ranks"
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"


def _hold_rate(found: list[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """Where something outside sets the rate, or nothing ran, no end of idle time gains anything."""
    little = [f.where[TOO_LITTLE] for f in found if TOO_LITTLE in f.where]
    if any(HELD in f.where for f in found):
        why = "the program is held to a rate: without this it would only wait longer"
    elif any(NO_WORK in f.where for f in found):
        why = "no kernel ran: there is nothing that could begin earlier"
    elif little:
        why = str(little[0])
    else:
        return found

    def is_void(f: Finding) -> bool:
        is_idle = f.rule in rules and bool(rules[f.rule].causes)
        return is_idle or (bool(little) and share_of(f.rule) == OF_WINDOW)

    return [
        replace(f, gain=Price(0, "ns"), severity="info", evidence=(*f.evidence, why))
        if not f.abstained and f.gain is not None and is_void(f)
        else f
        for f in found
    ]


def _raise_cost(cost: Price | None, gain_ns: int) -> Price | None:
    """A cost of at least the gain: what its end gains was lost to it."""
    if cost is None or not cost.amount or cost.pct is None or cost.amount >= gain_ns:
        return cost
    return Price(gain_ns, "ns", cost.pct * gain_ns / cost.amount)
