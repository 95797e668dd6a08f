"""A rule and facts: a finding, silence, or what is missing to judge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sightline.algebra.scalars import find_largest
from sightline.model.declare import Finding
from sightline.model.run import Run
from sightline.rules.custom import facts as of
from sightline.rules.custom.expression import Expression, Missing, Unfit, number
from sightline.rules.custom.forms import OwnRule
from sightline.rules.finding import grade_severity
from sightline.timeline.gains import sum_windows

# {{.mem_bw.avg}} is ClusterCockpit's (a Go template), {mem_bw.avg:.1f} is ours.
_PLACE = re.compile(r"\{\{\s*\.([\w.]+)\s*\}\}|\{([A-Za-z][\w.]*)(?::\.(\d)([feg]))?\}")


@dataclass(frozen=True)
class Outcome:
    """What a rule came to: `holds`, or None and the reason why it could not be judged."""

    holds: bool | None
    names: Mapping[str, Any]
    reason: str | None = None


def evaluate(rule: OwnRule, facts: Mapping[str, Any]) -> Outcome:
    """The rule on facts: metrics, `job` and `run` by name, as `facts.of_run` gives them."""
    names: dict[str, Any] = {**facts, **rule.parameters}
    at: Expression = rule.rule
    try:
        for at in rule.requirements:
            if not _is_true(at.value(names)):
                return Outcome(False, names)
        for name, at in rule.variables.items():
            names[name] = at.value(names)
        at = rule.rule
        return Outcome(_is_true(at.value(names)), names)
    except Missing as missing:
        reason = f"it needs {missing}, which the recording does not hold"
        return Outcome(None, names, reason)
    except Unfit as unfit:
        return Outcome(None, names, f"{at.at.file}, line {at.at.line}: {unfit}")


def _is_true(value: Any) -> bool:
    if isinstance(value, str | tuple | Mapping) or value is None:
        raise Unfit("the answer is neither true nor false")
    return bool(value)


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
        cost_ns=cost,
        cost_pct=pct,
        gain_ns=gain,
        evidence=tuple(list_evidence(rule, outcome.names)),
        cause=f"the rule holds: {rule.rule.text}",
        fix=rule.texts.get("fix"),
        verify=rule.texts.get("verify") or f"the same rule again is silent: {rule.rule.text}",
        method="as the rule states it: its own cost, no replay",
        sources=(f"{rule.at.file}, line {rule.at.line} ({rule.form}'s form)", *rule.sources),
    )


def _read_amount(expression: Expression | None, names: Mapping[str, Any]) -> int | None:
    """A cost or gain in ns, at least 0."""
    return None if expression is None else max(0, round(number(expression.value(names))))


def list_evidence(rule: OwnRule, names: Mapping[str, Any]) -> list[str]:
    """Every value that went into the answer."""
    read = dict.fromkeys(n for e in (*rule.variables.values(), rule.rule) for n in e.names)
    lines = [f"{name} = {_print_value(names[name])}" for name in rule.variables]
    # A variable that only renames a value is enough of it.
    renamed = {e.text.strip() for e in rule.variables.values()}
    for name in read:
        value = look_up_values(name, names)
        shown = name in rule.variables or name in renamed
        if not shown and value is not None and not isinstance(value, tuple):
            lines.append(f"{name} = {_print_value(value)}")
    return lines


def look_up_values(name: str, names: Mapping[str, Any]) -> Any:
    """A dotted name's value, or None."""
    value: Any = names
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return None if isinstance(value, Mapping) else value


def fill_text(hint: str, names: Mapping[str, Any]) -> str:
    """The hint with values in place of names; a name that is not known stays as it is."""

    def value(match: re.Match[str]) -> str:
        found = look_up_values(match[1] or match[2], names)
        if found is None:
            return match[0]
        if match[3] is not None and isinstance(found, float):
            return f"{found:.{match[3]}{match[4]}}"
        return _print_value(found)

    return _PLACE.sub(value, hint)


def _print_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"{len(value)} samples"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


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
        lines += ["", "Parameters", *(f"    {k} = {_print_value(v)}" for k, v in settings.items())]
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
