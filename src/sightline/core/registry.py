"""Finds importers, analyses, rules, panels, tables and exporters by the folder they lie in.

A module in one of these folders is registered by being there: it has one constant that says
what it is (`IMPORTER`, `ANALYSIS`, `RULE`, `PANEL`, `TABLE`, `EXPORTER`,
`BACKEND`, `DISPLAY`) and one function.
Modules whose name starts with an underscore are shared parts, not members. Analyses, rules and
panels lie in the folder of their subject, whose `__init__.py` says what it is with `SUBJECT`;
importers lie in the folder of their family of tools. Other packages register through an entry
point in the group of the kind, for example:

    [project.entry-points."sightline.analyses"]
    my_question = "my_package.my_question"

Nothing is imported until it is asked for, but the `__init__.py` of subjects.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import re
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
OF_SUMS = "the summed time"
OF_JOBS = "what the jobs were given"


class Subject(NamedTuple):
    """A folder of `subjects/`: what its members are about, and its heading for a person.

    What its rules cost are shares of `share_of`, or of `share_without_device` where no device was
    recorded; findings of different wholes are not compared.
    """

    name: str
    title: str
    share_of: str = OF_WINDOW
    share_without_device: str = OF_KERNELS
    # Its users change options and no code: what they can change comes first, unless what needs the
    # code changed gains so many times as much.
    ahead: float = 1.0
    # Its rules have nothing to say of a run that has no rows of any of these, and are not loaded.
    needs: tuple[str, ...] = ()
    # What its rules look for is part of each step: of a long run a few steps are asked.
    in_steps: bool = False


class Kind(NamedTuple):
    """One kind of member: its constant, its noun, where all are listed, and where they lie.

    Each place is a folder below sightline's own; a `*` stands for each folder there.
    """

    constant: str
    noun: str
    listed_by: str
    places: tuple[str, ...]


KINDS = {
    "importers": Kind("IMPORTER", "importer", "formats", ("formats/*",)),
    "analyses": Kind("ANALYSIS", "analysis", "analyses", ("subjects/*/analyses",)),
    "rules": Kind("RULE", "rule", "rules", ("subjects/*/rules",)),
    "tables": Kind("TABLE", "table", "tables", ("core/model/tables",)),
    "exporters": Kind("EXPORTER", "exporter", "export --list", ("views/exports",)),
    "backends": Kind("BACKEND", "backend", "doctor", ("record/collect/backends",)),
    "displays": Kind("DISPLAY", "display", "explain", ("views/notebook",)),
    "panels": Kind("PANEL", "panel", "formats", ("views/html/panels", "subjects/*/panels")),
}


@cache
def list_names(kind: str) -> dict[str, str]:
    """Names of the members of a kind such as 'analyses', sorted, each with its module path."""
    known = {
        name: f"{folder}.{name}"
        for place in KINDS[kind].places
        for folder in _list_folders(place)
        for name in _list_modules(folder)
        if not name.startswith("_")
    }
    for point in _find_points(kind):
        known.setdefault(point.name, point.value)
    return dict(sorted(known.items()))


def _list_folders(place: str) -> list[str]:
    """The packages that a place of a kind stands for, by their dotted names."""
    folders = ["sightline"]
    for part in place.split("/"):
        if part == "*":
            folders = [f"{f}.{name}" for f in folders for name in _list_modules(f, packages=True)]
        else:
            folders = [f"{folder}.{part}" for folder in folders]
    return folders


def _list_modules(package: str, *, packages: bool = False) -> list[str]:
    """The modules and packages in a package, or its packages alone; none where it is not there.

    Nothing is imported: the files are looked at.
    """
    loaded = sys.modules.get(package)
    if loaded is not None:
        paths = list(loaded.__path__)
    else:  # pathlib takes 5 ms to load
        below = package.split(".")[1:]
        paths = [os.path.join(own, *below) for own in sys.modules["sightline"].__path__]  # noqa: PTH118
    return [m.name for m in pkgutil.iter_modules(paths) if m.ispkg or not packages]


@cache
def list_subjects() -> dict[str, Subject]:
    """All subjects by the names of their folders, in order."""
    packages = {f.rpartition(".")[2]: f for f in _list_folders("subjects/*")}
    return {name: importlib.import_module(f).SUBJECT for name, f in sorted(packages.items())}


def subject_of(kind: str, name: str) -> Subject | None:
    """The subject of an analysis, a rule or a panel; None where there is none of that name."""
    match list_names(kind).get(name, "").split("."):
        case ["sightline", "subjects", folder, *_]:
            return list_subjects()[folder]
    return None


def load(kind: str, name: str) -> ModuleType:
    """The member's module. An unknown name is an error that lists near ones."""
    known = list_names(kind)
    if name not in known:
        raise RequestError(
            f"there is no {KINDS[kind].noun} called '{name}'",
            why=_find_asked(name) if kind == "analyses" else did_you_mean(name, known),
            hint=f"All of them:  sightline {KINDS[kind].listed_by}",
        )
    return importlib.import_module(known[name])


_FORMS = re.compile(r"(?:ies|es|ied|ed|ing|s|y)$")  # copies, copied, copying, copy
_LEAST_STEM = 3


def _find_asked(word: str) -> str | None:
    """An analysis of nearly that name; else those whose question has a form of the word."""
    known = list_names("analyses")
    stem = _FORMS.sub("", word.lower())
    if did_you_mean(word, known, _CLOSE) or len(stem) < _LEAST_STEM:
        return did_you_mean(word, known)
    asked = [
        name
        for name, module in load_members("analyses")
        if any(part.startswith(stem) for part in module.ANALYSIS.question.lower().split())
    ]
    # What has a vendor's name comes last.
    asked.sort(key=lambda name: ".nsys." in known[name])
    return f"did you mean {' or '.join(asked[:3])}?" if asked else did_you_mean(word, known)


_CLOSE = 0.75  # of difflib: one or two letters of a word


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The names that are nearest to a mistyped one, as a question."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=3, cutoff=cutoff)
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
