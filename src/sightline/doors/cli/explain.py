"""The page of a rule, an analysis or an XID: what it means, and what to do.

sightline explain launch_bound
sightline explain idle_gaps
sightline explain xid 79                     what it means, and who must act
sightline explain mine --rules mine.yaml     a rule of your own
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import textwrap

from sightline.doors.cli._shared import add_rules, load_own_rules

HELP = "the page of a rule, an analysis or an XID"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="see: sightline rules, sightline analyses")
    parser.add_argument("code", metavar="CODE", nargs="?", help="after 'xid': its number")
    add_rules(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.answer.explain import explain_name
    from sightline.core.text import clean_text

    name = args.name if args.code is None else f"{args.name} {args.code}"
    page = clean_text(explain_name(name, load_own_rules(args.rules)))
    print(_fit(page, shutil.get_terminal_size((100, 24)).columns))  # COLUMNS, else the window
    return 0


def _fit(page: str, width: int) -> str:
    """The page with what is wider than the terminal wrapped anew, paragraph by paragraph."""
    lines: list[str] = []

    def indent_of(line: str) -> int:
        return len(line) - len(line.lstrip())

    for indent, group in itertools.groupby(page.split("\n"), key=indent_of):
        same = list(group)
        if max(map(len, same)) <= width or not all(same):
            lines += same
            continue
        space = " " * indent
        text = " ".join(line.strip() for line in same)
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=space,
            subsequent_indent=space,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)
