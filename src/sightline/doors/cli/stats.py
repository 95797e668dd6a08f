"""One analysis as a table.

sightline stats breakdown trace.json
sightline stats kernels trace.json --format json
sightline stats idle_gaps rank*.json --set threshold_ns=100us
sightline analyses                        lists them all
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.core.units import format_several
from sightline.doors.cli._output import add_exact, add_target, choose_table_format
from sightline.doors.cli._shared import (
    add_recordings,
    count_rows,
    find_width,
    open_recordings,
    print_bytes,
)

if TYPE_CHECKING:
    from sightline.core.model.declare import Analysis
    from sightline.core.model.run import Run
    from sightline.views.tables import Reading

HELP = "one analysis as a table, or as csv, json, parquet, markdown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("analysis", metavar="NAME", help="see: sightline analyses")
    add_recordings(parser)
    parser.add_argument(
        "--format",
        default=None,
        metavar="F",
        help="table (default), csv, json, parquet or markdown",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser, with_format=False)
    add_exact(parser)
    parser.add_argument(
        "--limit",
        type=count_rows,
        default=30,
        metavar="N",
        help="rows of --format table and markdown (default 30, 0 for all); data is never cut",
    )
    parser.add_argument(
        "--full-names",
        action="store_true",
        help="kernels by their full names, not by the shortest that distinguishes them; other "
        "formats than table and markdown always have them",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PARAMETER=VALUE",
        dest="parameters",
        help="a parameter of the analysis, may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    import shlex
    import sys
    from pathlib import Path
    from textwrap import fill

    from sightline.core import registry
    from sightline.errors import RequestError
    from sightline.views.tables import put_worst_first, write

    form = choose_table_format(args)
    if form == "parquet" and sys.stdout.isatty():
        raise RequestError(
            "Parquet is binary and stdout is a terminal", hint="Redirect it:  ... > table.parquet"
        )
    if args.analysis not in registry.list_names("analyses") and Path(args.analysis).exists():
        named = next((r for r in args.recordings if r in registry.list_names("analyses")), "NAME")
        raise RequestError(
            f"{args.analysis} is a recording, and the analysis comes first",
            hint=f"sightline stats {named} {shlex.quote(args.analysis)}",
        )
    declared = registry.load("analyses", args.analysis).ANALYSIS
    parameters = _parameters(args.parameters, declared)
    opened = open_recordings(args)
    answer = opened.ask(args.analysis, **parameters)
    if form in ("table", "markdown"):
        answer = put_worst_first(answer, declared)
    reading = _reading(opened, args, form)
    print_bytes(write(answer, declared.columns, form, args.limit, reading, exact=args.exact))
    cut = answer.height - args.limit
    if form in ("table", "markdown"):
        if args.limit > 0 and cut > 0:
            print(f"… {format_several(cut, 'more row')} (--limit 0 for all)", file=sys.stderr)
        for note in _list_notes(declared, opened) if form == "table" else ():
            said = f"note: {note}"
            is_seen = sys.stderr.isatty()
            print(fill(said, find_width(sys.stderr)) if is_seen else said, file=sys.stderr)
    return 0


def _list_notes(declared: Analysis, run: Run) -> list[str]:
    """What is to be known of the table; of one about memory, where that does not add up."""
    from sightline.core import registry
    from sightline.subjects.memory.conservation import note_broken_memory

    is_of_memory = ".subjects.memory." in registry.load("analyses", declared.name).__name__
    broken = note_broken_memory(run) if is_of_memory else None
    order = f"Those with the most {declared.worst} first; --format csv keeps the answer's order."
    return [
        *([broken.text] if broken else []),
        *([order] if declared.worst else []),
        *declared.notes,
    ]


def _reading(run: Run, args: argparse.Namespace, form: str) -> Reading:
    """How a person reads the table: moments from the window's start, kernels by short names."""
    import sys

    from sightline.timeline.run_labels import label_run_kernels
    from sightline.views.tables import Reading

    if form not in ("table", "markdown"):
        return Reading()
    origin, labels = None, {}
    if run.rows("device_ops"):
        origin = run.ask("windows").get_column("window_start_ns").min()
        if not args.full_names:
            labels = label_run_kernels(run)
    width = find_width(sys.stdout) if sys.stdout.isatty() and not args.full_names else None
    start = origin if isinstance(origin, int) else None
    return Reading(width, start, labels, whole=args.full_names)


def _parameters(given: list[str], declared: object) -> dict[str, object]:
    """Values of --set as texts, which the run reads: durations may carry a unit."""
    from sightline.errors import RequestError

    known = {p.name: p for p in declared.params}  # type: ignore[attr-defined]
    values: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            have = ", ".join(known) or "none"
            raise RequestError(
                f"'{text}' sets no parameter of {declared.name}",  # type: ignore[attr-defined]
                why=f"it has {have}",
            )
        values[name] = value
    return values
