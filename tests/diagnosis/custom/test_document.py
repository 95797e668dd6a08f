"""A rule file as values that know their place: files that cannot be read, and odd values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sightline.diagnosis.custom.document import read
from sightline.errors import InputError


def file(folder: Path, content: bytes) -> Path:
    path = folder / "mine.yaml"
    path.write_bytes(content)
    return path


def test_values_and_their_lines(tmp_path: Path) -> None:
    value = read(file(tmp_path, b"tag: a\nparameters:\n  most: [20, 2024-01-01]\n"))
    assert value.plain() == {"tag": "a", "parameters": {"most": [20, "2024-01-01"]}}
    assert value.data["parameters"].line == 3


def test_halves_of_letters_are_replaced(tmp_path: Path) -> None:
    """JSON may have them, and no file that we write."""
    value = read(file(tmp_path, rb'{"na\ud800me": "bad \ud800", "list": ["\udfff"]}'))
    assert value.plain() == {"na?me": "bad ?", "list": ["?"]}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a: \xff", "(?i)not UTF-8"),
        (b"#" * (1 << 22), "larger than"),
        (b"", "the file is empty"),
        (b"? [a]\n: b", "a name must be a string"),
        (b"a: 1\na: 2", "'a' is given twice"),
        (b"a: !!int " + b"x" * 90, r"'x{57}\.\.\.' is not an int"),
    ],
    ids=["bytes", "large", "empty", "name", "twice", "type"],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(InputError) as caught:
        read(file(tmp_path, content))
    assert re.search(why, caught.value.sentence())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path / "none.yaml")
