"""Finds importers, analyses, rules and tables by the folder they lie in.

A module in one of these folders is registered by being there: it has one constant that says
what it is (`IMPORTER`, `ANALYSIS`, `RULE`, `TABLE`, `EXPORTER`, `PANEL`) and one function.
Modules whose name starts with an underscore are shared parts, not members. Other packages register
through an entry point in the group of the same dotted name, for example:

    [project.entry-points."sightline.analyses"]
    my_question = "my_package.my_question"

Nothing is imported until it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from sightline.errors import RequestError

KINDS = {
    "importers": "IMPORTER",
    "analyses": "ANALYSIS",
    "rules": "RULE",
    "model.tables": "TABLE",
    "exporters": "EXPORTER",
    "report.html.panels": "PANEL",
}


@cache
def names(kind: str) -> dict[str, str]:
    """Member names of a folder such as 'analyses', sorted, each with its module path."""
    package = importlib.import_module(f"sightline.{kind}")
    found = {
        info.name: f"{package.__name__}.{info.name}"
        for info in pkgutil.iter_modules(package.__path__)
        if not info.name.startswith("_")
    }
    for point in entry_points(group=f"sightline.{kind}"):
        found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


def load(kind: str, name: str) -> ModuleType:
    """The member's module. An unknown name is an error that lists near ones."""
    known = names(kind)
    if name not in known:
        noun = {"analyses": "analysis", "model.tables": "table"}.get(kind, kind.rstrip("s"))
        listing = {
            "model.tables": "tables",
            "importers": "formats",
            "exporters": "export --list",
        }.get(kind, kind)
        raise RequestError(
            f"there is no {noun} called '{name}'",
            why=did_you_mean(name, known),
            hint=f"All of them:  sightline {listing}",
        )
    return importlib.import_module(known[name])


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The names that are nearest to a mistyped one, as a question."""
    near = difflib.get_close_matches(word, list(known), n=3)
    return f"did you mean {' or '.join(near)}?" if near else None


def members(kind: str) -> Iterator[tuple[str, ModuleType]]:
    """All members with their modules, in order of name."""
    for name in names(kind):
        yield name, load(kind, name)


def has_outsiders() -> bool:
    """Whether another package has registered a member of any kind."""
    return any(entry_points(group=f"sightline.{kind}") for kind in KINDS)
