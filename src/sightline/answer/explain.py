"""The page of a rule or an analysis, found by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.core import registry
from sightline.core.model.run import page
from sightline.diagnosis.aliases import ALIASES
from sightline.errors import RequestError

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule


def explain_name(name: str, own: Sequence[OwnRule] = ()) -> str:
    """The page of a rule, an analysis, or a rule of one's own. Raises RequestError."""
    tag = name.replace("_", "-")
    for rule in own:
        if rule.tag == tag:
            from sightline.diagnosis.custom.check import write_page

            return write_page(rule)
    module = name.replace("-", "_")
    for kind in ("rules", "analyses"):
        if module in registry.list_names(kind):
            return page(registry.load(kind, module))
    if tag in ALIASES:
        rules, why = ALIASES[tag]
        parts = [f"{name} has no rule of its own: {why}."]
        for other in rules:
            text = page(registry.load("rules", other.replace("-", "_")))
            parts.append(f"\n{other}\n{'=' * len(other)}\n\n{text}")
        return "\n".join(parts)
    known = [rule.replace("_", "-") for rule in registry.list_names("rules")]
    raise RequestError(
        f"there is no rule or analysis called '{name}'",
        why=registry.did_you_mean(name, [*known, *registry.list_names("analyses"), *ALIASES]),
        hint="List them:  sightline rules  or  sightline analyses",
    )
