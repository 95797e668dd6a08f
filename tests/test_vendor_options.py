"""Options of the vendors' tools: those that are typed are known, and the tools have them.

The tools' own help is asked in a campaign: SIGHTLINE_VENDORS names a folder with what was unpacked
of their packages (docs/contributing.md; make vendor-options VENDORS=FOLDER).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.typed_options import Typed, collect_typed, find_commands
from support.vendor_helps import Help, find_wrong_value, has_option, list_helps
from support.vendor_table import check_options, read_table

pytestmark = pytest.mark.xdist_group("vendor options")  # all sources are read once
VENDORS = os.environ.get("SIGHTLINE_VENDORS")
NSYS = """
\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx', 'osrt', 'none'.
\t   Select the API(s) to be traced.

\t-y, --delay=

\t   Collection start delay in seconds.
"""


@pytest.fixture(scope="module")
def typed() -> list[Typed]:
    return list(collect_typed())


def test_each_typed_option_is_in_the_table(typed: list[Typed]) -> None:
    """A new one is checked before it is typed: make vendor-options VENDORS=FOLDER."""
    assert {row.key for row in read_table()} == {(t.tool, t.command, t.option) for t in typed}


def test_the_table_says_where_each_was_found() -> None:
    for row in read_table():
        assert row.has or row.note, f"{row.key}: neither a version nor a document has it"
        assert not row.lacks or row.note, f"{row.key}: why is it typed, if {row.lacks} lacks it?"


def test_commands_are_found_in_text_and_in_code(typed: list[Typed]) -> None:
    def find(text: str) -> list[tuple[str, ...]]:
        return [tuple(found[:4]) for found in find_commands(text, "here")]

    assert find("record: `nsys profile --trace cuda,nvtx -o x ./a.out --own`, then look") == [
        ("nsys", "profile", "--trace", "cuda,nvtx"),
        ("nsys", "profile", "-o", "x"),
    ]
    assert find("nvidia-smi -q -d PERFORMANCE  says why") == [
        ("nvidia-smi", "", "-q", ""),
        ("nvidia-smi", "", "-d", "PERFORMANCE"),
    ]
    assert find("sightline run --backend nsys --stacks -- a") == []
    assert find("--section Occupancy") == [("ncu", "", "--section", "Occupancy")]
    built = {(t.tool, t.command, t.option) for t in typed if t.place.startswith("src")}
    assert ("nsys", "profile", "--capture-range-end") in built
    assert ("dcgmi", "dmon", "-e") in built


def test_what_a_help_does_not_have_is_found() -> None:
    told = Help("nsys", "1.2.3", {"profile": NSYS}, frozenset(), frozenset())
    assert has_option(told, "profile", "--delay")
    assert has_option(told, "profile", "--del") is False
    assert has_option(told, "stats", "--report") is None
    good = Typed("nsys", "profile", "--trace", "cuda,nvtx", "here")
    wrong = good._replace(value="cuda,mpi")
    assert find_wrong_value(told, good) is None
    assert find_wrong_value(told, wrong) == "mpi"
    _, said = check_options([wrong, good._replace(option="--nonsense")], [told], [])
    assert said == [
        "nsys profile --nonsense: not in 1.2.3: here",
        "nsys profile --trace mpi: not in 1.2.3: here",
    ]


@pytest.mark.skipif(not VENDORS, reason="SIGHTLINE_VENDORS names no folder of vendors' tools")
def test_the_tools_have_each_option(typed: list[Typed]) -> None:
    helps = list_helps(Path(str(VENDORS)))
    assert helps, "no tool was found there"
    _, wrong = check_options(typed, helps, read_table())
    assert wrong == []
