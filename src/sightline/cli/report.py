"""Why is this program slow? One screen: what ran, where the time went, findings, kernels.

sightline report trace.json.gz
sightline report rank*.json.gz            several ranks of one job
sightline report trace.json --json        the same as data
sightline report trace.json -o report.md  into a file: .txt, .md or .json
"""

from __future__ import annotations

import argparse

from sightline.cli._shared import add_recordings, open_run

HELP = "why the program is slow: one screen, or a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("--json", action="store_true", help="print the report as data")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE: .txt, .md or .json")


def run(args: argparse.Namespace) -> int:
    import json
    import sys
    from pathlib import Path

    from sightline.errors import InputError, RequestError
    from sightline.report.summary import summary

    suffix = Path(args.output).suffix.lower() if args.output else None
    if suffix not in (None, ".txt", ".md", ".json"):
        raise RequestError(
            f"cannot write {args.output}", why="its ending must be .txt, .md or .json"
        )
    data = summary(open_run(args))
    if args.json:
        print(json.dumps(data, indent=1, ensure_ascii=False))
    elif args.output is None:
        from rich.console import Console

        from sightline.report.terminal import WIDTH, render

        # The screen is laid out for 80 columns: rich must not wrap or colour it by itself.
        Console(width=WIDTH, highlight=False, soft_wrap=True).print(render(data), markup=False)
    if args.output is not None:
        try:
            Path(args.output).write_text(_text(data, suffix or ""), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {args.output}", why=error.strerror) from error
        print(f"{args.output} written", file=sys.stderr)
    return 0


def _text(data: dict[str, object], suffix: str) -> str:
    import json

    from sightline.report.terminal import render

    if suffix == ".json":
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    plain = render(data).plain + "\n"
    return plain if suffix == ".txt" else f"```text\n{plain}```\n"
