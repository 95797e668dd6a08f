"""What is tried: commands, with each combination of the values that are set in them."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sightline.core.units import format_several
from sightline.errors import RequestError

# All pairs share the error rate: of 12 variants there are 66.
MOST_VARIANTS = 12
_SEPARATOR = "--"


@dataclass(frozen=True)
class Variant:
    """A command, what it is called, and the variables that are set for it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """What a person would type."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, shlex.join(self.command)])


def split_commands(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands between double dashes; without any dashes, each word is a command in quotes.

    Raises RequestError where one is empty or has an open quote.
    """
    if _SEPARATOR not in words:
        try:
            found = [tuple(shlex.split(word)) for word in words]
        except ValueError as error:
            raise RequestError("a command has an open quote", why=str(error).lower()) from error
    else:
        rest = words[1:] if words[0] == _SEPARATOR else words
        groups = itertools.groupby(rest, key=lambda word: word == _SEPARATOR)
        found = [tuple(group) for is_mark, group in groups if not is_mark]
    if not found or not all(found):
        raise RequestError(
            "there is no program to try",
            hint="Two commands:       sightline try -- python a.py -- python b.py\n"
            "One with settings:  sightline try --set n=0,4 -- python a.py --n {n}",
        )
    return found


def read_settings(option: str, given: Sequence[str]) -> dict[str, list[str]]:
    """The values of each name, as 'workers=0,4,8' has them. Raises RequestError."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, mark, values = text.partition("=")
        listed = values.split(",")
        if not mark or not name or name in found or len(set(listed)) != len(listed):
            raise RequestError(
                f"{option} {text} is not a valid value",
                why="it must be NAME=A,B, each name and value once",
            )
        found[name] = listed
    return found


def list_variants(
    commands: Sequence[tuple[str, ...]],
    settings: Mapping[str, Sequence[str]],
    environment: Mapping[str, Sequence[str]],
) -> list[Variant]:
    """Each command with each combination of values, the first of all first.

    Raises RequestError where there is one alone, or too many, or a name is in no command.
    """
    for name in settings:
        if not any(_mark(name) in word for command in commands for word in command):
            raise RequestError(
                f"no command has {_mark(name)}",
                why=f"--set {name}=... is put in its place",
                hint=f"For example  python train.py --{name.replace('_', '-')} {_mark(name)}",
            )
    axes = [[(name, value) for value in values] for name, values in settings.items()]
    axes += [[(name, value) for value in values] for name, values in environment.items()]
    letters = string.ascii_uppercase
    found = []
    for number, command in enumerate(commands):
        for values in itertools.product(*axes):
            inside = {name: value for name, value in values if name in settings}
            words = [letters[number % 26]] if len(commands) > 1 else []
            words += [f"{name}={value}" for name, value in values]
            outside = {name: value for name, value in values if name in environment}
            found.append(Variant(" ".join(words), _fill(command, inside), outside))
    if len(found) < 2:
        raise RequestError(
            "there is one variant only",
            why="sightline try compares several variants",
            hint="Two commands:       sightline try -- python a.py -- python b.py\n"
            "One with settings:  --set NAME=A,B  or  --env NAME=A,B",
        )
    if len(found) > MOST_VARIANTS:
        raise RequestError(
            f"{format_several(len(found), 'variant')} are too many",
            why=f"{MOST_VARIANTS} are tried at once",
        )
    return found


def check_programs(variants: Sequence[Variant]) -> None:
    """Raise RequestError where one's program is not there, before any is run."""
    for variant in variants:
        path = variant.environment.get("PATH", os.environ.get("PATH", ""))
        if shutil.which(variant.command[0], path=path) is None:
            raise RequestError(
                f"cannot run {variant.command[0]}", why="there is no such program on the PATH"
            )


def _mark(name: str) -> str:
    return "{" + name + "}"


def _fill(command: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    words = list(command)
    for name, value in values.items():
        words = [word.replace(_mark(name), value) for word in words]
    return tuple(words)
