"""What is tried: commands between dashes, or in quotes, with the values that are set."""

from __future__ import annotations

import pytest

from sightline.errors import RequestError
from sightline.experiment.variants import (
    check_programs,
    list_variants,
    read_settings,
    split_commands,
)


def test_commands_between_dashes_and_in_quotes() -> None:
    two = [("python", "a.py", "-x"), ("python", "b.py")]
    assert split_commands(["--", "python", "a.py", "-x", "--", "python", "b.py"]) == two
    assert split_commands(["python a.py -x", "python b.py"]) == two


def test_each_combination_of_values() -> None:
    variants = list_variants(
        [("train", "--workers={n}", "{n}")],
        read_settings("--set", ["n=0,4"]),
        read_settings("--env", ["OMP_NUM_THREADS=1,2"]),
    )
    assert [v.name for v in variants] == [
        f"n={n} OMP_NUM_THREADS={threads}" for n in (0, 4) for threads in (1, 2)
    ]
    assert variants[2].command == ("train", "--workers=4", "4")
    assert variants[3].environment == {"OMP_NUM_THREADS": "2"}
    assert variants[3].line == "OMP_NUM_THREADS=2 train --workers=4 4"


def test_commands_have_letters() -> None:
    variants = list_variants([("a",), ("b", "{k}")], {"k": ["1", "2"]}, {})
    assert [v.name for v in variants] == ["A k=1", "A k=2", "B k=1", "B k=2"]


@pytest.mark.parametrize(
    ("commands", "settings", "expected"),
    [
        ([("a",)], {}, "one variant only"),
        ([("a",), ("b",)], {"n": ["1", "2"]}, "no command has {n}"),
        ([("a", "{n}")], {"n": [str(k) for k in range(13)]}, "13 variants"),
    ],
)
def test_what_cannot_be_tried(
    commands: list[tuple[str, ...]], settings: dict[str, list[str]], expected: str
) -> None:
    with pytest.raises(RequestError, match=expected):
        list_variants(commands, settings, {})


@pytest.mark.parametrize("words", [[], ["--"], ["--", "--"], ["python 'a"], [""]])
def test_no_program(words: list[str]) -> None:
    with pytest.raises(RequestError):
        split_commands(words)


@pytest.mark.parametrize("text", ["n", "=1,2", "n=1,1"])
def test_settings_that_are_none(text: str) -> None:
    with pytest.raises(RequestError, match="NAME=A,B"):
        read_settings("--set", [text])


def test_a_program_that_is_not_there() -> None:
    variants = list_variants([("sh", "-c", ":"), ("no-such-program",)], {}, {})
    with pytest.raises(RequestError, match="no-such-program"):
        check_programs(variants)
