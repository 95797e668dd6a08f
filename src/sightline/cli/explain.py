"""The page of a rule or an analysis: what it looks for, with which threshold, and what to do.

sightline explain launch_bound
sightline explain idle_gaps
"""

from __future__ import annotations

import argparse

HELP = "the page of a rule or an analysis"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="see: sightline rules, sightline analyses")


def run(args: argparse.Namespace) -> int:
    from sightline import registry
    from sightline.errors import RequestError
    from sightline.model.run import page

    name = args.name.replace("-", "_")
    for kind in ("rules", "analyses"):
        if name in registry.names(kind):
            print(page(registry.load(kind, name)))
            return 0
    raise RequestError(
        f"there is no rule or analysis called '{args.name}'",
        hint="All of them:  sightline rules;  sightline analyses",
    )
