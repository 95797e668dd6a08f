"""Why is this program slow? One screen, and a page: where the time went.

sightline report trace.json.gz             one screen, and report.html
sightline report rank*.json.gz             several ranks of one job
sightline report trace.json -o run.html    the page: one file, offline
sightline report trace.json --format markdown   for a pull request or an issue
sightline report trace.json --json         the same as data
sightline report trace.json --for-llm      for a language model: 4,000 tokens
sightline report 'rank*.json.gz' --scheduler tcp://head:8786
                                           many ranks, read by Dask's workers
sightline report 'rank*.json.gz' --slurm gpu   the same by jobs of Slurm

With --scheduler or --slurm, sightline ranks answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from sightline.doors.cli._edge import describe_terminal, draw_screen, write_raw
from sightline.doors.cli._output import (
    add_output,
    choose_format,
    deliver,
    encode_json,
    refuse_inputs,
    replace_file,
)
from sightline.doors.cli._places import add_places, answer_ranks
from sightline.doors.cli._shared import (
    add_all,
    add_recordings,
    add_rules,
    find_width,
    load_own_rules,
    open_recordings,
)

if TYPE_CHECKING:
    from sightline.answer.answer import Answer
    from sightline.session import Session

HELP = "why the program is slow: one screen, and a page to open"
FORMATS = ("text", "markdown", "json", "html", "llm")
DEFAULT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    add_rules(parser)
    add_all(parser)
    add_output(parser, FORMATS)
    add_places(parser)
    parser.add_argument(
        "--for-llm",
        dest="format",
        action="store_const",
        const="llm",
        help="the same as --format llm: one short text for a language model that uses tools",
    )
    parser.add_argument(
        "--no-html",
        action="store_true",
        help=f"do not write {DEFAULT} into the current folder (on a terminal it is written)",
    )


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.errors import RequestError

    if args.scheduler is not None or args.slurm is not None:
        return _report_ranks(args)
    if args.workers is not None or args.show is not None:
        raise RequestError(
            "--workers and --show are for many ranks",
            hint="Give --scheduler or --slurm as well, or ask  sightline ranks",
        )
    form = choose_format(args)
    answer = _Answer(args)
    if args.output is not None:
        refuse_inputs([Path(args.output)], answer.inputs)
    if form == "text" and args.output is None:
        write_raw(sys.stdout, answer.draw(sys.stdout))
        if sys.stdout.isatty() and not args.no_html:
            _write_beside(lambda: answer.write("html"), answer.inputs)
    else:
        deliver(args.output, answer.inputs, lambda: answer.write(form).encode(), None)
    return 0


class _Answer:
    """What is asked, in each form; the recordings are read when a form was not made before."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._own = load_own_rules(args.rules)
        self.inputs = [*args.recordings, *args.rules]

    def draw(self, stream: TextIO) -> str:
        """The screen, as the terminal shows it."""
        import hashlib

        from sightline.opening.finished import keep_finished

        def make() -> str:
            from sightline.core.stages import stage
            from sightline.views.terminal.screen import render_screen

            answer = self._answer
            with stage("draw the screen"):
                return draw_screen(render_screen(answer, width), stream, width)

        # The screen is laid out for this width: rich must not wrap or colour it by itself.
        width = find_width(stream)
        seen = hashlib.blake2b(repr(describe_terminal(stream, width)).encode(), digest_size=8)
        return keep_finished(self._name, f"screen-{seen.hexdigest()}", make)

    def write(self, form: str) -> str:
        """The answer as text, Markdown, JSON or a page."""
        from sightline.opening.finished import keep_finished

        return keep_finished(self._name, form, lambda: self._make(form))

    def _make(self, form: str) -> str:
        if form == "html":
            from sightline.core.stages import stage
            from sightline.views.html.page import write

            # Where the screen needed it, or all steps are to be asked.
            known = self._answer if self._args.all else vars(self).get("_answer")
            opened = self._run
            with stage("write the page"):
                return write(opened, known, own=self._own).decode()
        return _encode(self._answer, form).decode()

    def _name(self) -> str | None:
        from sightline.opening.finished import name_request

        args = self._args
        asked = ("report", args.window, args.same_job, args.keep_identity, args.all)
        return None if self._own else name_request(args.recordings, asked)

    @cached_property
    def _run(self) -> Session:
        return open_recordings(self._args, for_rules=True)

    @cached_property
    def _answer(self) -> Answer:
        return self._run.answer(self._own, whole=self._args.all)


def _report_ranks(args: argparse.Namespace) -> int:
    """Many ranks, read by other machines."""
    from sightline.errors import RequestError

    kept = {"--window": args.window, "--rules": args.rules, "--all": args.all}
    kept["--same-job"] = args.same_job
    given = [name for name, value in kept.items() if value]
    if (form := choose_format(args)) in ("markdown", "llm"):
        given.append(f"--format {form}")
    if given:
        raise RequestError(
            f"{given[0]} is not for many ranks",
            why="with --scheduler or --slurm the answer is that of  sightline ranks",
            hint=f"Leave {given[0]} out, or give one rank's recording without --scheduler.",
        )
    return answer_ranks(args)


def _encode(answer: Answer, form: str) -> bytes:
    if form == "json":
        return encode_json(answer.to_dict())
    if form == "markdown":
        from sightline.views.markdown import write_markdown

        return write_markdown(answer).encode()
    if form == "llm":
        from sightline.views.for_llm import write_for_llm

        return write_for_llm(answer).encode()
    from sightline.views.terminal.screen import render_screen

    return (render_screen(answer).plain + "\n").encode()


def write_page_beside(opened: Session, answer: Answer, recordings: Sequence[str] = ()) -> None:
    """The page in the current folder. What is there and not ours stays; a screen is enough then."""
    from sightline.views.html.page import write

    _write_beside(lambda: write(opened, answer).decode(), recordings)


def _write_beside(make: Callable[[], str], recordings: Sequence[str]) -> None:
    import os
    import sys
    from pathlib import Path

    from sightline.errors import SightlineError
    from sightline.views.html.generator import is_ours

    target = Path(DEFAULT)
    try:
        # A link may be one that somebody else put there, to lead to a file of ours.
        is_report = target.is_file() and not target.is_symlink() and is_ours(target)
        if os.path.lexists(target) and not is_report:
            print(
                f"{DEFAULT} is not a report of sightline, so it stays; name another:  -o FILE.html",
                file=sys.stderr,
            )
            return
        replace_file(target, make().encode(), recordings)
    except (SightlineError, OSError) as error:
        print(f"{DEFAULT} is not written: {error}", file=sys.stderr)
        return
    print(f"{target.absolute()} written", file=sys.stderr)
