"""What is worth recording next, and how: a checklist of what recordings hold.

sightline next trace.json.gz
sightline next trace.json.gz kernels.ncu-rep     both of one program
sightline next job.sightline --json

The first line is the command to type; COMMAND stands for your program. Below it
are the other points of the list: what is open (☐), done (✓), and what such a
program does not need (–).
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._shared import add_reading, open_recordings

HELP = "what is worth recording next, with its command line"
_SIGNS = {"done": "✓", "open": "☐", "not needed": "–"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings",
        nargs="+",
        metavar="RECORDING",
        help="files, folders, globs or .sightline stores, of one program",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    import json
    import textwrap
    from dataclasses import asdict

    from sightline.answer.next_steps import OPEN, list_checks

    checks = list_checks(open_recordings(args))
    if args.json:
        print(json.dumps({"checks": [asdict(check) for check in checks]}, indent=1))
        return 0
    first = checks[0]
    if first.state == OPEN:
        print(textwrap.fill(f"Next: {first.title} – {first.why}", 80, subsequent_indent="      "))
        print(f"  {first.command}\n")
    else:
        print("Next: nothing: all that such a program needs is recorded\n")
    for check in checks:
        print(f"{_SIGNS[check.state]} {check.title}")
        if check.state == OPEN and check is not first:
            print(f"    {check.command}")
    return 0
