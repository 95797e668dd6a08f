"""The exercises: a folder each, with what is planted in it and what it takes to run it.

lab/NAME/README.md       the lesson
lab/NAME/baseline.*      the slow program, and improved.*, the same with the fix
lab/NAME/expected.toml   what is planted, how it is recorded, what was measured
lab/NAME/recorded/       recordings of both, for machines that cannot run them
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.errors import RequestError

SIDES = ("baseline", "improved")
# Where a checkout has the exercises, and where an installed sightline has them.
_PLACES = (
    Path(__file__).parents[3] / "lab",
    Path(__file__).parents[1] / "exercises",
)


@dataclass(frozen=True)
class Measured:
    """What was measured by running both sides: gains of a step's time in %, one per repetition."""

    where: str
    predicted_pct: tuple[float, ...]
    realised_pct: tuple[float, ...]
    first: int  # repetitions in which the planted cause was the first finding


@dataclass(frozen=True)
class Exercise:
    """One exercise. `needs` are modules, programs, or `gpu`; `status`: who made its recordings.

    It runs on `ranks` processes, which `launcher` starts; with `jobs` on each of these numbers of
    them, for `scaling`; `environment` are variables (`NAME=value`) that both sides run with.
    """

    name: str
    folder: Path
    title: str
    covers: tuple[str, ...]
    finding: str | None
    status: str
    needs: tuple[str, ...] = ()
    ranks: int = 1
    launcher: str = "torchrun"
    jobs: tuple[int, ...] = ()
    record: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    steps: str = "undisturbed"
    why_not_predicted: str | None = None
    measured: Measured | None = field(default=None, repr=False)

    def find_program(self, side: str) -> Path | None:
        """The program of a side, if the exercise has one."""
        return next((p for p in sorted(self.folder.glob(f"{side}.*")) if p.is_file()), None)

    def find_recording(self, side: str) -> Path | None:
        """The kept recording of a side, if there is one."""
        return next(iter(sorted((self.folder / "recorded").glob(f"{side}.*"))), None)

    def list_lacks(self) -> list[str]:
        """What this machine lacks to run it."""
        return [need for need in self.needs if not _has(need)]


def find_lab() -> Path:
    """The folder of the exercises. Raises RequestError where sightline was installed without."""
    for place in _PLACES:
        if any(place.glob("*/expected.toml")):
            return place
    raise RequestError(
        "the exercises of the lab are not installed",
        why=f"no exercise lies in {' or '.join(str(p) for p in _PLACES)}",
        hint="Install sightline from a wheel or from its checkout:  pip install .",
    )


def list_exercises() -> list[Exercise]:
    """All exercises, in the order in which they are best read."""
    found = [read_exercise(path.parent) for path in find_lab().glob("*/expected.toml")]
    return sorted(found, key=lambda e: (_ORDER.get(e.status, len(_ORDER)), e.name))


_ORDER = {"real CPU": 0, "real GPU": 1, "simulated": 2}


def find_exercise(name: str) -> Exercise:
    """The exercise of that name. Raises RequestError where there is none."""
    folder = find_lab() / name
    if "/" not in name and (folder / "expected.toml").is_file():
        return read_exercise(folder)
    from difflib import get_close_matches

    near = get_close_matches(name, [e.name for e in list_exercises()], 1)
    raise RequestError(
        f"there is no exercise '{name}'",
        why=f"did you mean {near[0]}?" if near else None,
        hint="All of them:  sightline lab",
    )


def read_exercise(folder: Path) -> Exercise:
    """What expected.toml says. Raises KeyError or TypeError where it lacks something: ours."""
    told: dict[str, Any] = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    measured = told.pop("measured", None)
    lists = {k: tuple(v) for k, v in told.items() if isinstance(v, list)}
    return Exercise(
        name=folder.name,
        folder=folder,
        measured=None
        if measured is None
        else Measured(
            measured["where"],
            tuple(measured["predicted_pct"]),
            tuple(measured["realised_pct"]),
            measured["first"],
        ),
        **{**told, **lists, "finding": told.get("finding")},
    )


_NAMES = {"gpu": "a GPU", "two GPUs": "a second GPU", "two CPUs": "a second CPU"}


def _has(need: str) -> bool:
    if need == "gpu":
        return any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/kfd"))
    if need == "two GPUs":  # NCCL refuses two ranks on one
        nodes = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev/dri").glob("renderD*")]
        return _has("gpu") and len(nodes) > 1
    if need == "two CPUs":
        return len(os.sched_getaffinity(0)) > 1
    return importlib.util.find_spec(need) is not None or shutil.which(need) is not None


def explain_lacks(lacks: Sequence[str]) -> str:
    """What is missing, as a person would say it."""
    return ", ".join(_name_needs(lacks))


def _name_needs(needs: Sequence[str]) -> Iterator[str]:
    for need in needs:
        yield _NAMES.get(need, need)
