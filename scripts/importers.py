"""Writes src/sightline/formats/_declared.py from the importers; with --check, only compares.

What each importer declares stands there once more, so that none of their 90 modules is loaded and
no pattern compiled to find out which one reads a file. A pattern that holds a literal is only
searched for where the literal is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from re import _constants as op
from re import _parser as parser
from typing import Any

from sightline.core import registry
from sightline.core.model.declare import Importer

TARGET = Path(__file__).resolve().parents[1] / "src" / "sightline" / "formats" / "_declared.py"
_HEAD = '''\
"""What each importer declares; written by scripts/importers.py (make docs), not to be edited.

opening/recognise.py reads it, and loads an importer only to read a recording. `LITERALS` are bytes
without which a pattern is found nowhere.
"""

# ruff: noqa
# fmt: off
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sightline.core import registry
from sightline.core.model.declare import Importer


def _find_folders_by(name: str) -> Callable[[Path], list[Path]]:
    """What an importer declares as `find_folders`; it is loaded when that is called."""

    def find_folders(path: Path) -> list[Path]:
        found: list[Path] = registry.load("importers", name).IMPORTER.find_folders(path)
        return found

    return find_folders


'''


def write_declared() -> str:
    """The whole module."""
    importers = [
        module.IMPORTER
        for _, module in registry.load_members("importers")
        if module.__name__.startswith("sightline.")
    ]
    lines = ["IMPORTERS = ("]
    for importer in importers:
        lines += ["    Importer(", *_list_fields(importer), "    ),"]
    lines += [")", "", "LITERALS = {"]
    patterns = dict.fromkeys(p for i in importers for p in (*i.strong, *i.weak))
    for pattern in patterns:
        if literal := find_literal(pattern):
            lines.append(f"    {pattern!r}: {literal!r},")
    return _HEAD + "\n".join([*lines, "}"]) + "\n"


def _list_fields(importer: Importer) -> Iterator[str]:
    for field in fields(importer):
        value = getattr(importer, field.name)
        if field.name == "find_folders":
            if value is not None:
                yield f"        find_folders=_find_folders_by({importer.name!r}),"
        elif value != field.default:
            yield f"        {field.name}={value!r},"


def find_literal(pattern: bytes) -> bytes:
    """The longest run of bytes that stands in every match; empty where there may be none."""
    tree = parser.parse(pattern)
    if tree.state.flags & parser.SRE_FLAG_IGNORECASE:
        return b""
    return max(_list_literals(tree), key=len, default=b"")


def _list_literals(tree: Sequence[tuple[Any, Any]]) -> Iterator[bytes]:
    """Runs of literals that a match must hold: of alternatives and what may be absent, none."""
    run = bytearray()
    for kind, value in tree:
        if kind is op.LITERAL:
            run.append(value)
            continue
        if kind is op.AT:  # a place, of no width
            continue
        yield bytes(run)
        run.clear()
        if kind is op.SUBPATTERN and not (value[1] & parser.SRE_FLAG_IGNORECASE):
            yield from _list_literals(value[3])
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT) and value[0] > 0:
            yield from _list_literals(value[2])
    yield bytes(run)


def main() -> int:
    text = write_declared()
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET.name} does not say what the importers declare. Run: make docs")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
