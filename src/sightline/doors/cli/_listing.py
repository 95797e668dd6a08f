"""Listings of what is registered."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from types import ModuleType


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print as JSON")


def print_members(
    kind: str,
    about: Callable[[ModuleType], str],
    as_json: bool,
    more: Sequence[dict[str, str]] = (),
    details: Callable[[ModuleType], dict[str, str]] = lambda _: {},
) -> int:
    """Name, one line and file of each member of a registry folder, and of `more` such rows.

    `details` are more lines of each, by their heading.
    """
    import json
    import textwrap
    from functools import partial

    from sightline.core import registry
    from sightline.core.text import make_printable

    rows = [
        {
            "name": _get_id(name, module),
            "about": about(module),
            **details(module),
            "module": module.__name__,
        }
        for name, module in registry.load_members(kind)
    ] + list(more)
    if as_json:
        print(json.dumps(rows, indent=1))
        return 0
    # Own rules come from other people's files.
    rows = [{head: make_printable(text) for head, text in row.items()} for row in rows]
    width = max(len(row["name"]) for row in rows)
    if kind in ("rules", "analyses"):
        _print_groups(rows, width)
        return 0
    for row in rows:
        indent = " " * (width + 2)
        wrap = partial(
            textwrap.fill, width=80, break_on_hyphens=False, subsequent_indent=indent + "  "
        )
        print(wrap(f"{row['name']:<{width}}  {row['about']}"))
        for head, text in row.items():
            if head not in ("name", "about", "module"):
                print(wrap(f"{head.replace('_', ' ')} {text}", initial_indent=indent))
        print(f"{'':<{width}}  {row['module']}")
    return 0


def _get_id(name: str, module: ModuleType) -> str:
    """What screens and commands call it: a rule by its own name, all else by its module's."""
    rule = getattr(module, "RULE", None)
    return name if rule is None else str(rule.name)


def _print_groups(rows: Sequence[dict[str, str]], width: int) -> None:
    """One line of each, under the title of its subject: of idle time, of copies, ..."""
    import textwrap
    from itertools import groupby

    from sightline.core import registry

    titles = {name: subject.title for name, subject in registry.list_subjects().items()}

    def title_of(row: dict[str, str]) -> str:
        parts = row["module"].split(".")
        known = parts[2] if parts[:2] == ["sightline", "subjects"] else ""
        return titles.get(known, "Others")

    for title, group in groupby(sorted(rows, key=title_of), key=title_of):
        print(title)
        for row in group:
            line = f"  {row['name']:<{width}}  {row['about']}"
            print(textwrap.fill(line, 80, subsequent_indent=" " * (width + 4)))
        print()
