"""What a backend declares: one file of collect/backends each, with one constant, BACKEND.

The plan, what the machine is asked, the remedies, the command lines and the list in
`sightline run --help` are made from these by loops: no other list of backends stands anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sightline.core import registry
from sightline.record.collect.look import Look
from sightline.record.collect.situation import Situation

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Fact:
    """Something to know of a machine; `place`: where it stands among the others in `doctor`."""

    name: str
    place: int
    find: Callable[[Look], Any]


@dataclass(frozen=True)
class Way:
    """One kind of recording, and whether it can be made here."""

    what: str
    possible: bool
    why: str


@dataclass(frozen=True)
class Missing:
    """One thing that is not as it must be: what to type, and whose page says so."""

    what: str
    remedy: tuple[str, ...]
    document: str


@dataclass(frozen=True)
class Verdict:
    """Whether a backend can record here, and with what, or why not.

    `options`: what it adds to a person's choices where it is taken.
    """

    possible: bool
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[Facts, bool], Iterator[Missing]]  # facts, and whether this is root
Build = Callable[[Sequence[str], Path, str, Mapping[str, Any]], list[str]]


@dataclass(frozen=True)
class Backend:
    """Something that records programs."""

    name: str
    order: int  # among the others; of two that trace GPUs from outside the first one records
    is_of_gpu: bool
    judge: Callable[[Situation], Verdict]
    # Questions, and in what situation it is picked for each; `carries`: those of them that cannot
    # be answered without it, or another one that carries them.
    answers: Mapping[str, Callable[[Situation], bool]]
    carries: tuple[str, ...] = ()
    option: str | None = None  # a choice of a person's that asks for it whatever the question is
    # Choices that it reads, and those of them that only it can serve: they ask for it as --backend
    # does. What no chosen backend reads is said (plan.list_unread).
    reads: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()
    # One tool can trace a GPU at a time: one around the program, or a profiler within it.
    traces: Literal["around", "within"] | None = None
    facts: tuple[Fact, ...] = ()
    ways: tuple[Callable[[Facts], Way], ...] = ()
    # Names of checks, of its own or common ones (remedies); "a|b": one of them is enough.
    needs: tuple[str, ...] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    # Command, run folder, the stem of its files, options: the command line around the command.
    build_command: Build | None = None


def always(situation: Situation) -> bool:
    """For `answers`: in every situation."""
    return True


@cache
def list_backends() -> tuple[Backend, ...]:
    """All of them, in their order."""
    found = (module.BACKEND for _, module in registry.load_members("backends"))
    return tuple(sorted(found, key=lambda backend: (backend.order, backend.name)))
