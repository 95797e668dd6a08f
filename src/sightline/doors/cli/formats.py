"""The recording formats that can be read, and the file each lives in."""

from __future__ import annotations

import argparse

from sightline.doors.cli._listing import add_json, print_members

HELP = "list the formats that can be read"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    return print_members(
        "importers",
        lambda m: f"{m.IMPORTER.label}",
        args.json,
        details=lambda m: {
            "recognised_by": m.IMPORTER.looks_like,
            **({"proven": m.IMPORTER.proven} if m.IMPORTER.proven else {}),
        },
    )
