"""A rule and facts: whether it holds, or what is missing to judge, and its values as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.core.units import format_several
from sightline.diagnosis.custom.expression import Expression, Missing, Unfit
from sightline.diagnosis.custom.forms import OwnRule

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


def list_evidence(rule: OwnRule, names: Mapping[str, Any]) -> list[str]:
    """Every value that went into the answer."""
    read = dict.fromkeys(n for e in (*rule.variables.values(), rule.rule) for n in e.names)
    lines = [f"{name} = {print_value(names[name])}" for name in rule.variables]
    # A variable that only renames a value is enough of it.
    renamed = {e.text.strip() for e in rule.variables.values()}
    for name in read:
        value = look_up_values(name, names)
        shown = name in rule.variables or name in renamed
        if not shown and value is not None and not isinstance(value, tuple):
            lines.append(f"{name} = {print_value(value)}")
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
        return print_value(found)

    return _PLACE.sub(value, hint)


def print_value(value: Any) -> str:
    """A value of an expression for a person."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return format_several(len(value), "sample")
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
