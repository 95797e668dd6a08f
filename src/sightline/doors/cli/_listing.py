"""Listings of what is registered."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from types import ModuleType


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print as data")


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

    from sightline.core import registry
    from sightline.core.text import make_printable

    rows = [
        {"name": name, "about": about(module), **details(module), "module": module.__name__}
        for name, module in registry.load_members(kind)
    ] + list(more)
    if as_json:
        print(json.dumps(rows, indent=1))
        return 0
    # Own rules come from other people's files.
    rows = [{head: make_printable(text) for head, text in row.items()} for row in rows]
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['about']}")
        for head, text in row.items():
            if head not in ("name", "about", "module"):
                line = f"{head.replace('_', ' ')} {text}"
                indent = " " * (width + 2)
                print(
                    textwrap.fill(
                        line,
                        80,
                        initial_indent=indent,
                        break_on_hyphens=False,
                        subsequent_indent=indent + "  ",
                    )
                )
        print(f"{'':<{width}}  {row['module']}")
    return 0
