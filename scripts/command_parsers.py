"""The parsers of a command line's commands: for pages that are written of them."""

from __future__ import annotations

import argparse


def list_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name; none where it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
