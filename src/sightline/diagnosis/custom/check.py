"""A rule and a run: a finding, silence, or what is missing to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, make_price
from sightline.core.model.run import Run
from sightline.diagnosis.build import grade_severity
from sightline.diagnosis.custom import facts as of
from sightline.diagnosis.custom.evaluate import (
    Outcome,
    evaluate,
    fill_text,
    list_evidence,
    print_value,
)
from sightline.diagnosis.custom.expression import Expression, Missing, Unfit, number
from sightline.diagnosis.custom.forms import OwnRule
from sightline.replay.gains import sum_windows


def check(run: Run, rules: Iterable[OwnRule]) -> list[Finding]:
    """The findings of people's own rules about a run."""
    found = [_finding(run, rule, evaluate(rule, of.read_facts(run, rule))) for rule in rules]
    return [f for f in found if f is not None]


def _finding(run: Run, rule: OwnRule, outcome: Outcome) -> Finding | None:
    if outcome.holds is None:
        return Finding(
            rule.tag, rule.name, "info", "not judged", abstained=True, reason=outcome.reason
        )
    if not outcome.holds:
        return None
    try:
        cost, gain = _read_amount(rule.cost, outcome.names), _read_amount(rule.gain, outcome.names)
    except (Missing, Unfit) as error:
        return Finding(
            rule.tag,
            rule.name,
            "info",
            "not judged",
            abstained=True,
            reason=f"{rule.at.file}, line {rule.at.line}: {error}",
        )
    pct = None
    if cost is not None and run.rows("device_ops"):
        pct = min(100 * cost / sum_windows(run), 100.0)
        # A cost is over all devices; no window can shrink by more than all of it.
        gain = min(cost if gain is None else gain, find_largest(run.ask("breakdown"), "window_ns"))
    graded = grade_severity(pct) if pct is not None else "warning"
    return Finding(
        rule=rule.tag,
        title=rule.tag if rule.name == rule.tag else f"{rule.tag}: {rule.name}",
        severity=rule.texts.get("severity", graded),
        summary=fill_text(rule.hint, outcome.names) or f"{rule.rule.text} holds.",
        cost=make_price(cost, "ns", pct),
        gain=make_price(gain, "ns"),
        evidence=tuple(list_evidence(rule, outcome.names)),
        cause=f"the rule holds: {rule.rule.text}",
        fix=rule.texts.get("fix"),
        verify=rule.texts.get("verify") or f"the same rule again is silent: {rule.rule.text}",
        method="as the rule states it: its own cost, without a replay",
        sources=(f"{rule.at.file}, line {rule.at.line} ({rule.form}'s form)", *rule.sources),
    )


def _read_amount(expression: Expression | None, names: Mapping[str, Any]) -> int | None:
    """A cost or gain in ns, at least 0."""
    return None if expression is None else max(0, round(number(expression.value(names))))


def write_page(rule: OwnRule) -> str:
    """What `sightline explain` prints of it."""
    lines = [
        rule.name,
        "",
        f"A rule of your own, in {rule.at.file}, line {rule.at.line} ({rule.form}'s form).",
    ]
    if rule.metrics:
        lines += ["", "Metrics", *(f"    {m}" for m in rule.metrics)]
    settings = {k: v for k, v in rule.parameters.items() if not isinstance(v, Mapping)}
    settings |= {f"config.{k}": v for k, v in rule.parameters.get("config", {}).items()}
    if settings:
        lines += ["", "Parameters", *(f"    {k} = {print_value(v)}" for k, v in settings.items())]
    if rule.requirements:
        lines += ["", "Only where", *(f"    {e.text}" for e in rule.requirements)]
    if rule.variables:
        lines += ["", "Variables", *(f"    {k} = {e.text}" for k, e in rule.variables.items())]
    lines += ["", "Rule", f"    {rule.rule.text}"]
    for label, key in (("Fix", "fix"), ("Verify", "verify"), ("Severity", "severity")):
        if key in rule.texts:
            lines += ["", label, f"    {rule.texts[key]}"]
    if rule.hint:
        lines += ["", "Says", f"    {rule.hint}"]
    return "\n".join(lines)
