"""Why is this program slow? One screen, and a page: where the time went.

sightline report trace.json.gz             one screen, and report.html
sightline report rank*.json.gz             several ranks of one job
sightline report trace.json -o run.html    the page: one file, offline
sightline report trace.json --format markdown   for a pull request or an issue
sightline report trace.json --json         the same as data
sightline report 'rank*.json.gz' --scheduler tcp://head:8786
                                           many ranks, read by Dask's workers
sightline report 'rank*.json.gz' --slurm gpu   the same by jobs of Slurm

With --scheduler or --slurm it is sightline ranks that answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.cli._output import (
    add_output,
    choose_format,
    deliver,
    encode_json,
    refuse_inputs,
    write_file,
)
from sightline.cli._places import add_places, answer_ranks
from sightline.cli._shared import add_recordings, add_rules, load_own_rules, open_recordings

if TYPE_CHECKING:
    from sightline.model.run import Run

HELP = "why the program is slow: one screen, and a page to open"
FORMATS = ("text", "markdown", "json", "html")
DEFAULT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    add_rules(parser)
    add_output(parser, FORMATS)
    add_places(parser)
    parser.add_argument(
        "--no-html",
        action="store_true",
        help=f"do not write {DEFAULT} into the current folder, as is done on a terminal",
    )


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.report.kept import keep_summary

    if args.scheduler is not None or args.slurm is not None:
        return _report_ranks(args)
    if args.workers is not None or args.show is not None:
        raise RequestError(
            "--workers and --show are for many ranks",
            hint="Give --scheduler or --slurm as well, or ask  sightline ranks",
        )
    form = choose_format(args)
    own = load_own_rules(args.rules)
    inputs = [*args.recordings, *args.rules]
    if args.output is not None:
        refuse_inputs([Path(args.output)], inputs)
    opened = open_recordings(args)
    if form == "html":
        from sightline.report.html.page import write

        deliver(args.output, inputs, lambda: write(opened, own=own), None)
        return 0
    data = keep_summary(opened, own)
    from sightline.report.terminal import render_screen

    render = (lambda width: render_screen(data, width)) if form == "text" else None
    deliver(args.output, inputs, lambda: _encode(data, form), render)
    if form == "text" and args.output is None and sys.stdout.isatty() and not args.no_html:
        write_page_beside(opened, data, inputs)
    return 0


def _report_ranks(args: argparse.Namespace) -> int:
    """Many ranks, read by other machines."""
    from sightline.errors import RequestError

    kept = {"--window": args.window, "--rules": args.rules, "--same-job": args.same_job}
    given = [name for name, value in kept.items() if value]
    if choose_format(args) == "markdown":
        given.append("--format markdown")
    if given:
        raise RequestError(
            f"{given[0]} is not for many ranks",
            why="with --scheduler or --slurm the answer is that of  sightline ranks",
            hint=f"Leave {given[0]} out, or give one rank's recording without --scheduler.",
        )
    return answer_ranks(args)


def _encode(data: dict[str, Any], form: str) -> bytes:
    if form == "json":
        return encode_json(data)
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
