"""The rules there are, and the file each lives in.

sightline explain RULE       a rule's page
"""

from __future__ import annotations

import argparse

from sightline.cli._listing import add_json, print_members

HELP = "the problems that are looked for"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    return print_members("rules", lambda m: m.RULE.title, args.json)
