"""What an event counts as: a component and its category; nothing where nobody is interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sightline.core.xids import look_up_action, read_xid


class Cause(NamedTuple):
    """A component that fails, and its category: GPU, Host, Network, Software, Unknown."""

    component: str
    category: str


_BY_SEVERITY = {
    "critical": Cause("Faulty GPU", "GPU"),
    "warning": Cause("Software Bug", "Software"),
}


@cache
def _list_causes() -> tuple[Mapping[str, Cause], Mapping[int, Cause]]:
    """Causes by kind of event, and by XID."""
    kinds: dict[str, Cause] = {}
    codes: dict[int, Cause] = {}
    text = files("sightline.health.failures").joinpath("causes.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        kind, listed, component, category = line.split("\t")
        cause = Cause(component, category)
        if listed == "-":
            kinds[kind] = cause
            continue
        for part in listed.split(","):
            first, _, last = part.partition("-")
            codes |= dict.fromkeys(range(int(first), int(last or first) + 1), cause)
    return kinds, codes


def find_cause(kind: str, text: str) -> Cause | None:
    """The cause that an event stands for; None of one that interrupts nobody."""
    kinds, codes = _list_causes()
    if kind != "xid":
        return kinds.get(kind)
    code = read_xid(text)
    if code is None:
        return None
    return codes.get(code) or _BY_SEVERITY.get(look_up_action(code).severity)
