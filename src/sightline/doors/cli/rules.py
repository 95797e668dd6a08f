"""The rules there are, and the file each lives in.

sightline explain RULE           a rule's page
sightline rules --rules FILE     those of your own, too
"""

from __future__ import annotations

import argparse
from types import ModuleType

from sightline.doors.cli._listing import add_json, print_members
from sightline.doors.cli._shared import add_rules, load_own_rules

HELP = "list the rules"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    add_rules(parser)


def _about(module: ModuleType) -> str:
    title: str = module.RULE.title
    return f"{title} (with --vendor)" if module.RULE.vendor else title


def run(args: argparse.Namespace) -> int:
    own = [
        {"name": rule.tag, "about": rule.name, "module": f"{rule.at.file}, line {rule.at.line}"}
        for rule in load_own_rules(args.rules)
    ]
    return print_members("rules", _about, args.json, own)
