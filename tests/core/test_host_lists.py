"""Hosts as Slurm lists them; each is what `scontrol show hostnames` prints of the list."""

from __future__ import annotations

from itertools import islice

import pytest

from sightline.core.host_lists import expand_host_list


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[08-10,12]-ib,login1", "node08-ib node09-ib node10-ib node12-ib login1"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("[1-2][7-8]", "17 18 27 28"),
        ("n[098-101]", "n098 n099 n100 n101"),
        (" a , b", "a b"),
        ("", ""),
    ],
)
def test_lists(text: str, names: str) -> None:
    assert list(expand_host_list(text)) == names.split()


@pytest.mark.parametrize(
    "text", ["n[1-b]", "n[5-1]", "n[]", "n[1-9" + "0" * 30 + "]", "n" + "[1]" * 2000, "n[1²]"]
)
def test_what_is_no_range_stays_as_written(text: str) -> None:
    assert list(expand_host_list(text)) == [text]


def test_names_are_made_as_they_are_asked_for() -> None:
    assert list(islice(expand_host_list("n[0-99999999999][0-9]"), 2)) == ["n00", "n01"]
