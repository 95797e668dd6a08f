"""The page of a rule or an analysis: what it looks for, from where on, what to do.

sightline explain launch_bound
sightline explain idle_gaps
sightline explain mine --rules mine.yaml     a rule of your own
"""

from __future__ import annotations

import argparse

from sightline.cli._shared import add_rules, load_own_rules

HELP = "the page of a rule or an analysis"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="see: sightline rules, sightline analyses")
    add_rules(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.report.explain import explain_name
    from sightline.text import clean_text

    print(clean_text(explain_name(args.name, load_own_rules(args.rules))))
    return 0
