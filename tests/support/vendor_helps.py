"""What the tools of the makers of GPUs say of their own options, by version.

From a folder with what was unpacked of their packages (Debian's nsight-systems-target,
nsight-compute, nsight-compute-target, nvidia-smi), which is searched for the programs, and with
texts called TOOL@VERSION or `TOOL COMMAND@VERSION`: what `unitrace --help` prints, or the lines of
a tool's source that declare its options.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.typed_options import COMMANDS, Typed

_VERSION = re.compile(r"(?:[Vv]ersion:? |v)(\d+\.\d+\.\d+)")
_PROGRAMS = ("nsys", "ncu", "nvidia-smi")


class Help(NamedTuple):
    """A tool's version, what it says for each of its commands, and the sections of ncu's."""

    tool: str
    version: str
    texts: dict[str, str]
    sections: frozenset[str]
    sets: frozenset[str]


def list_helps(folder: Path) -> list[Help]:
    """All tools and texts in a folder, those of one tool by version."""
    found = [*_ask_programs(folder), *_read_texts(folder)]
    return sorted(found, key=lambda h: (h.tool, [int(n) for n in re.findall(r"\d+", h.version)]))


def has_option(told: Help, command: str, option: str) -> bool | None:
    """Whether a version has an option; None where it says nothing of that command."""
    text = told.texts.get(command)
    if text is None:
        return None
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def find_wrong_value(told: Help, typed: Typed) -> str | None:
    """The word of a typed value that a version does not know, where it lists what it knows."""
    if told.tool == "ncu" and typed.option in ("--section", "--set"):
        known = told.sections if typed.option == "--section" else told.sets
        value = typed.value
        return value if known and re.fullmatch(r"\w+", value) and value not in known else None
    if told.tool != "nsys" or not re.fullmatch(r"[a-z][a-z,_-]*", typed.value):
        return None
    block = _find_block(told.texts.get(typed.command, ""), typed.option)
    listed = re.search(
        r"(?s)Possible values(?: are)?:?(.*?)\n\n|Possible values(?: are)?:?(.*)", block
    )
    if listed is None:
        return None
    return next((w for w in typed.value.split(",") if not re.search(rf"\b{w}\b", block)), None)


def _find_block(text: str, option: str) -> str:
    """What a help says of one option: up to the next."""
    found = re.search(rf"(?m)^\s*(?:-\w, )?{re.escape(option)}=?(?![\w-]).*(?:\n(?!\t-).*)*", text)
    return found[0] if found else ""


def _ask_programs(folder: Path) -> Iterator[Help]:
    for name in _PROGRAMS:
        for path in sorted(folder.rglob(name)):
            if not path.is_file() or not os.access(path, os.X_OK) or path.stat().st_size < 10_000:
                continue
            version = _VERSION.search(_run(path, "--version") + _run(path, "--help"))
            if version is None:
                continue
            texts = {"": _run(path, "--help")}
            if name == "nvidia-smi":
                # It tells its commands' options only where there is a driver: its own texts do.
                own = path.read_bytes().decode("latin-1")
                texts |= dict.fromkeys(COMMANDS[name], own)
            elif name == "nsys":
                texts |= {command: _run(path, command, "--help") for command in COMMANDS[name]}
            yield Help(name, version[1], texts, *_list_sections(path, name))


def _run(path: Path, *words: str) -> str:
    done = subprocess.run(
        [f"./{path.name}", *words], cwd=path.parent, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def _list_sections(path: Path, name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Of ncu, the sections in its package, and the sets that these are in."""
    if name != "ncu":
        return frozenset(), frozenset()
    package = next(p for p in path.parents if p.name == "nsight-compute")
    texts = [p.read_text() for p in sorted(package.rglob("*.section"))]
    sections = {m[1] for t in texts if (m := re.search(r'(?m)^Identifier: "(\w+)"', t))}
    sets = {m[1] for t in texts for m in re.finditer(r'(?m)^\s+Identifier: "(\w+)"', t)}
    return frozenset(sections), frozenset(sets)


def _read_texts(folder: Path) -> Iterator[Help]:
    """Texts called TOOL@VERSION, of all its commands, or `TOOL COMMAND@VERSION`."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for path in sorted(folder.rglob("*@*")):
        called, _, version = path.name.partition("@")
        tool, _, command = called.partition(" ")
        text = path.read_text(errors="replace")
        commands = (command,) if command else ("", *COMMANDS.get(tool, ()))
        found.setdefault((tool, version), {}).update(dict.fromkeys(commands, text))
    for (tool, version), texts in found.items():
        yield Help(tool, version, texts, frozenset(), frozenset())
