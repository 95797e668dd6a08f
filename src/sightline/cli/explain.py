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
    from sightline import registry
    from sightline.errors import RequestError
    from sightline.model.run import page
    from sightline.rules.aliases import ALIASES
    from sightline.text import clean_text

    for own in load_own_rules(args.rules):
        if own.tag == args.name.replace("_", "-"):
            from sightline.rules.custom.check import write_page as own_page

            print(clean_text(own_page(own)))
            return 0
    name = args.name.replace("-", "_")
    for kind in ("rules", "analyses"):
        if name in registry.list_names(kind):
            print(page(registry.load(kind, name)))
            return 0
    also = ALIASES.get(args.name.replace("_", "-"))
    if also is not None:
        rules, why = also
        print(f"{args.name} has no rule of its own: {why}.")
        for rule in rules:
            print(f"\n{rule}\n{'=' * len(rule)}\n")
            print(page(registry.load("rules", rule.replace("-", "_"))))
        return 0
    rules_known = [rule.replace("_", "-") for rule in registry.list_names("rules")]
    raise RequestError(
        f"there is no rule or analysis called '{args.name}'",
        why=registry.did_you_mean(
            args.name, [*rules_known, *registry.list_names("analyses"), *ALIASES]
        ),
        hint="All of them:  sightline rules;  sightline analyses",
    )
