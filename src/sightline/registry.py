"""Finds importers, analyses, rules and tables by the folder they lie in.

A module in one of these folders is registered by being there: it has one constant that says
what it is (`IMPORTER`, `ANALYSIS`, `RULE`, `TABLE`, `EXPORTER`, `PANEL`,
`BACKEND`) and one function.
Modules whose name starts with an underscore are shared parts, not members. Analyses and rules may
also lie one folder deeper, in a family: a package whose `__init__.py` says so with `FAMILY`. Other
packages register through an entry point in the group of the same dotted name, for example:

    [project.entry-points."sightline.analyses"]
    my_question = "my_package.my_question"

Nothing is imported until it is asked for, but the `__init__.py` of families.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from sightline.errors import RequestError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OF_WINDOW, OF_KERNELS, OF_MEMORY = "the window", "profiled kernel time", "the memory"
OF_THREAD, OF_RANK = "the thread's time", "the rank's time"
OF_ENERGY = "the measured energy"


class Family(NamedTuple):
    """A folder of members that are about one thing: its name, and its heading for a person.

    What its rules cost are shares of `share_of`, or of `share_without_device` where no device was
    recorded; findings of different wholes are not compared.
    """

    name: str
    title: str
    share_of: str = OF_WINDOW
    share_without_device: str = OF_KERNELS


class Kind(NamedTuple):
    """What lies in one of the folders: the constant of each, its noun, and where all are listed."""

    constant: str
    noun: str
    listed_by: str
    lies: str = "here"  # 'here', 'in families', or 'both'


KINDS = {
    "importers": Kind("IMPORTER", "importer", "formats"),
    "analyses": Kind("ANALYSIS", "analysis", "analyses", "both"),
    "rules": Kind("RULE", "rule", "rules", "in families"),
    "model.tables": Kind("TABLE", "table", "tables"),
    "exporters": Kind("EXPORTER", "exporter", "export --list"),
    "report.html.panels": Kind("PANEL", "panel", "formats"),
    "collect.backends": Kind("BACKEND", "backend", "doctor"),
}


@cache
def list_names(kind: str) -> dict[str, str]:
    """Member names of a folder such as 'analyses', sorted, each with its module path."""
    package = importlib.import_module(f"sightline.{kind}")
    lies = KINDS[kind].lies
    folders = [] if lies == "in families" else [package]
    if lies != "here":
        folders += list_families(kind).values()
    found = {
        info.name: f"{folder.__name__}.{info.name}"
        for folder in folders
        for info in pkgutil.iter_modules(folder.__path__)
        if not info.name.startswith("_") and not (info.ispkg and lies != "here")
    }
    for point in _find_points(kind):
        found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


@cache
def list_families(kind: str) -> dict[Family, ModuleType]:
    """The families of a folder, in order of name, each with its package."""
    package = importlib.import_module(f"sightline.{kind}")
    packages = [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if info.ispkg
    ]
    return {p.FAMILY: p for p in packages if hasattr(p, "FAMILY")}


def family_of(kind: str, name: str) -> Family | None:
    """The family that a member lies in; None where it lies in none, or there is no such member."""
    package = list_names(kind).get(name, "").rpartition(".")[0]
    return getattr(importlib.import_module(package), "FAMILY", None) if package else None


def load(kind: str, name: str) -> ModuleType:
    """The member's module. An unknown name is an error that lists near ones."""
    known = list_names(kind)
    if name not in known:
        raise RequestError(
            f"there is no {KINDS[kind].noun} called '{name}'",
            why=did_you_mean(name, known),
            hint=f"All of them:  sightline {KINDS[kind].listed_by}",
        )
    return importlib.import_module(known[name])


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The names that are nearest to a mistyped one, as a question."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=3)
    return f"did you mean {' or '.join(near)}?" if near else None


def load_members(kind: str) -> Iterator[tuple[str, ModuleType]]:
    """All members with their modules, in order of name."""
    for name in list_names(kind):
        yield name, load(kind, name)


def has_outsiders() -> bool:
    """Whether another package has registered a member of any kind."""
    return any(_find_points(kind) for kind in KINDS)


def _find_points(kind: str) -> Sequence[EntryPoint]:
    """The members of a folder that other packages have registered."""
    if not _is_named_by_packages():
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group=f"sightline.{kind}"))


@cache
def _is_named_by_packages() -> bool:
    """Whether any installed package may register something; True where that takes a closer look.

    Almost none does, and to find that out importlib.metadata takes 30 ms of every command: it
    loads the parser of e-mails and parses the entry points of all packages (benchmarks/start.py).
    """
    # Packages that no folder of sys.path holds: in an archive, or found by a finder of their own.
    if sum(hasattr(finder, "find_distributions") for finder in sys.meta_path) > 1:
        return True
    for place in dict.fromkeys(sys.path):
        if os.path.isfile(place):  # noqa: PTH113  # pathlib takes 5 ms to load
            return True
        with contextlib.suppress(OSError), os.scandir(place or ".") as entries:
            for entry in entries:
                if entry.name.lower().endswith((".dist-info", "egg-info")) and _names_us(
                    entry.path
                ):
                    return True
    return False


def _names_us(folder: str) -> bool:
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123
            return b"[sightline." in file.read()
    except OSError:
        return False
