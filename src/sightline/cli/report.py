"""Why is this program slow? One screen, and a page: where the time went.

sightline report trace.json.gz             one screen, and report.html
sightline report rank*.json.gz             several ranks of one job
sightline report trace.json -o run.html    the page: one file, offline
sightline report trace.json --format markdown   for a pull request or an issue
sightline report trace.json --json         the same as data
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.cli._output import refuse_inputs, write_file
from sightline.cli._shared import add_recordings, add_rules, load_own_rules, open_recordings

if TYPE_CHECKING:
    from sightline.model.run import Run

HELP = "why the program is slow: one screen, and a page to open"
FORMATS = ("text", "markdown", "json", "html")
_SUFFIXES = {".txt": "text", ".md": "markdown", ".json": "json", ".html": "html", ".htm": "html"}
DEFAULT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    add_rules(parser)
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--format", metavar="F", help=f"{', '.join(FORMATS)}; else by the ending of -o"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE: .html, .txt, .md or .json"
    )
    parser.add_argument(
        "--no-html",
        action="store_true",
        help=f"do not write {DEFAULT} into the current folder, as is done on a terminal",
    )


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.report.kept import keep_summary

    form = _form(args)
    own = load_own_rules(args.rules)
    inputs = [*args.recordings, *args.rules]
    if args.output is not None:
        refuse_inputs([Path(args.output)], inputs)
    opened = open_recordings(args)
    if form == "html":
        from sightline.report.html.page import write

        page = write(opened, own=own)
        if args.output is None:
            from sightline.cli._shared import print_bytes

            print_bytes(page)
        else:
            write_file(Path(args.output), page, inputs)
            print(f"{args.output} written", file=sys.stderr)
        return 0
    data = keep_summary(opened, own)
    if args.output is not None:
        write_file(Path(args.output), _bytes(data, form), inputs)
        print(f"{args.output} written", file=sys.stderr)
        return 0
    if form == "text":
        from sightline.cli._edge import print_screen
        from sightline.cli._shared import find_width
        from sightline.report.terminal import render_screen

        # The screen is laid out for this width: rich must not wrap or colour it by itself.
        width = find_width(sys.stdout)
        print_screen(render_screen(data, width), sys.stdout, width)
        if sys.stdout.isatty() and not args.no_html:
            write_page_beside(opened, data, inputs)
        return 0
    from sightline.cli._shared import print_bytes

    print_bytes(_bytes(data, form))
    return 0


def _form(args: argparse.Namespace) -> str:
    """The form that is asked for, by --json, --format, or the ending of -o."""
    from pathlib import Path

    from sightline.errors import RequestError

    if args.json and args.format not in (None, "json"):
        raise RequestError(f"--json and --format {args.format} are two forms", hint="Ask for one.")
    form = "json" if args.json else args.format
    if form is not None and form not in FORMATS:
        raise RequestError(f"there is no format '{form}'", why=f"there are {', '.join(FORMATS)}")
    if args.output is None:
        return str(form or "text")
    suffix = Path(args.output).suffix.lower()
    if form is None and suffix not in _SUFFIXES:
        raise RequestError(
            f"cannot write {args.output}",
            why="its ending must be .txt, .md or .json, or .html for the page",
        )
    return str(form or _SUFFIXES[suffix])


def _bytes(data: dict[str, Any], form: str) -> bytes:
    if form == "json":
        import json

        return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()
    if form == "markdown":
        from sightline.report.markdown import write_markdown

        return write_markdown(data).encode()
    from sightline.report.terminal import render_screen

    return (render_screen(data).plain + "\n").encode()


def write_page_beside(opened: Run, data: dict[str, Any], recordings: Sequence[str] = ()) -> None:
    """The page in the current folder. What is there and not ours stays; a screen is enough then."""
    import sys
    from pathlib import Path

    from sightline.errors import SightlineError
    from sightline.report.html.page import is_ours, write

    target = Path(DEFAULT)
    try:
        if target.exists() and not (target.is_file() and is_ours(target)):
            print(
                f"{DEFAULT} is not a report of sightline, so it stays; name another:  -o FILE.html",
                file=sys.stderr,
            )
            return
        write_file(target, write(opened, data), recordings)
    except (SightlineError, OSError) as error:
        print(f"{DEFAULT} is not written: {error}", file=sys.stderr)
        return
    print(f"{target.absolute()} written", file=sys.stderr)
