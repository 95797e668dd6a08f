"""What is on this machine, what can be recorded here and what cannot, each with the reason.

sightline doctor
sightline doctor --json
"""

from __future__ import annotations

import argparse

HELP = "what can be recorded on this machine, and why not"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print as data")


def run(args: argparse.Namespace) -> int:
    import json
    import textwrap
    from dataclasses import asdict

    from sightline.collect.machine import examine, recordable

    facts = examine()
    ways = recordable(facts)
    if args.json:
        print(json.dumps({"facts": facts, "recordable": [asdict(w) for w in ways]}, indent=1))
        return 0
    for name, value in facts.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        head = f"{name.replace('_', ' '):<22}"
        text = "none found" if shown in (None, "") else str(shown)
        print(textwrap.fill(text, 80, initial_indent=head, subsequent_indent=" " * 22))
    print("\nWhat can be recorded here")
    for way in ways:
        mark = "yes" if way.possible else "no "
        head = f"  {mark}  {way.what:<37}"
        print(textwrap.fill(way.why, 80, initial_indent=head, subsequent_indent=" " * 44))
    return 0
