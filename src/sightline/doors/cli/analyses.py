"""The analyses there are, the question each answers, and the file it lives in."""

from __future__ import annotations

import argparse

from sightline.doors.cli._listing import add_json, print_members

HELP = "list the analyses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    return print_members("analyses", lambda m: m.ANALYSIS.question, args.json)
