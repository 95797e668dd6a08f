"""The page of a rule, an analysis or an XID, found by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.core import registry
from sightline.core.model.run import page
from sightline.core.xids import MOST_CODE, explain_xid, list_xids
from sightline.diagnosis.aliases import ALIASES
from sightline.errors import RequestError

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule

_XID = re.compile(r"(?i)xid(?:[:_-]?(\d+)| (.*))?", re.DOTALL)


def explain_name(name: str, own: Sequence[OwnRule] = ()) -> str:
    """The page of a rule, an analysis, an XID, or a rule of one's own. Raises RequestError."""
    tag = name.replace("_", "-")
    for rule in own:
        if rule.tag == tag:
            from sightline.diagnosis.custom.check import write_page

            return write_page(rule)
    if found := _XID.fullmatch(name):
        return _explain_code(found[1] or found[2])
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


def _explain_code(text: str | None) -> str:
    """The page of an XID's number; all of them where there is none."""
    if not text:
        rows = [
            f"{xid.code:>4}  {xid.action.severity:<9}{xid.meaning}" for xid in list_xids().values()
        ]
        return "\n".join(["XIDs of NVIDIA's driver:  sightline explain xid 79", "", *rows])
    if not text.isdecimal() or not 0 < int(text) <= MOST_CODE:
        raise RequestError(
            f"'{text}' is not an XID number",
            hint="Write for example: sightline explain xid 79",
        )
    return explain_xid(int(text))
