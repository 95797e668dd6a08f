"""-o, --json, --format and --window are there and mean the same in every command."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sightline.doors.cli.main import build_parser, command_names
from support.command import sightline
from support.places import EXAMPLES

TRACE = str(EXAMPLES / "simulated-dataloader.json.gz")
# A screen that goes on, of which no file is written.
LIVE = {"top"}


def list_parsers() -> list[tuple[str, argparse.ArgumentParser]]:
    """Every command, and every action of one, with its parser."""
    found = []
    for name in command_names():
        parser = build_parser([name])
        (commands,) = parser._subparsers._group_actions
        sub = commands.choices[name]
        found.append((name, sub))
        for action in sub._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += [(f"{name} {word}", inner) for word, inner in action.choices.items()]
    return found


def test_what_is_data_comes_in_each_form_and_into_a_file() -> None:
    lacking = {}
    for name, parser in list_parsers():
        options = {option for action in parser._actions for option in action.option_strings}
        if "--json" in options and name not in LIVE:
            lacking[name] = {"--format", "-o"} - options
    assert len(lacking) > 20
    assert {name: missing for name, missing in lacking.items() if missing} == {}


@pytest.mark.parametrize("words", [["rules"], ["tables"], ["findings", TRACE]], ids=" ".join)
def test_three_ways_to_ask_for_data_are_one(tmp_path: Path, words: list[str]) -> None:
    data = json.loads(sightline(*words, "--json").out)
    assert data
    assert json.loads(sightline(*words, "--format", "json").out) == data
    target = tmp_path / "x.json"
    written = sightline(*words, "-o", target)
    assert (written.code, written.out) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8")) == data


def test_an_ending_is_a_format_of_findings(tmp_path: Path) -> None:
    target = tmp_path / "x.md"
    assert sightline("findings", TRACE, "-o", target).code == 0
    assert target.read_text(encoding="utf-8").startswith("**The GPU is idle")
