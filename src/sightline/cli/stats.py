"""One analysis as a table.

sightline stats breakdown trace.json
sightline stats kernels trace.json --format json
sightline stats idle_gaps rank*.json --set threshold_ns=100us
sightline analyses                        lists them all
"""

from __future__ import annotations

import argparse

from sightline.cli._shared import add_recordings, open_recordings, print_bytes

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
    parser.add_argument(
        "--limit",
        type=int,
        default=30,
        metavar="N",
        help="rows of --format table and markdown (default 30, 0 for all); data is never cut",
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

    from sightline import registry
    from sightline.errors import RequestError
    from sightline.report.formats import FORMATS, write

    form = "json" if args.json else args.format or "table"
    if form not in FORMATS:
        raise RequestError(f"there is no format '{form}'", why=f"there are {', '.join(FORMATS)}")
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
    answer = open_recordings(args).ask(args.analysis, **parameters)
    print_bytes(write(answer, declared.columns, form, args.limit))
    cut = answer.height - args.limit
    if form in ("table", "markdown"):
        if args.limit > 0 and cut > 0:
            print(f"… {cut:,} more rows (--limit 0 for all)", file=sys.stderr)
        for note in declared.notes if form == "table" else ():
            print(f"note: {note}", file=sys.stderr)
    return 0


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
