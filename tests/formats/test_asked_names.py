"""Names that a reader looked for and did not find, beside ones that are nearly them."""

from __future__ import annotations

import json

import pytest

from sightline.formats._asked_names import AskedNames
from sightline.formats._text_damage import is_near_name


def ask(document: object, *names: str) -> int:
    """How many names are damaged, once each object of a list was asked for all names."""
    asked = AskedNames()
    for one in json.loads(json.dumps(document), object_pairs_hook=asked.hook):
        for name in names:
            one.get(name)
    return asked.count_damaged()


def test_a_damaged_name_is_found_where_the_right_one_is_missing() -> None:
    assert ask([{"time": 1, "comment": "x"}, {"time": 2, "commen": "y"}], "time", "comment") == 1
    assert ask([{"time": 1, "comment": "x"}, {"time": 2, "comment": "y"}], "time", "comment") == 0


def test_a_name_that_is_also_looked_for_is_another_one() -> None:
    """Two spellings that a reader knows, of two versions of a tool."""
    assert ask([{"node_list": 1}], "nodelist", "node_list") == 0


def test_what_a_tool_calls_so_again_and_again_is_no_damage() -> None:
    assert ask([{"jobb_id": n} for n in range(3)], "job_id") == 3
    assert ask([{"jobb_id": n} for n in range(4)], "job_id") == 0


def test_an_object_is_a_dict_to_all_who_use_it() -> None:
    asked = AskedNames()
    made = json.loads('{"a": {"b": [1]}}', object_pairs_hook=asked.hook)
    assert isinstance(made, dict)
    assert made == {"a": {"b": [1]}}
    assert {**made}.keys() == {"a"}
    assert json.loads(json.dumps(made)) == made
    assert made.get("c", 7) == 7
    assert "c" not in made
    with pytest.raises(KeyError):
        made["c"]


def test_maps_of_any_names_are_left_alone() -> None:
    assert ask([{f"name{n}": n for n in range(300)}], "name_1") == 0


@pytest.mark.parametrize(
    ("word", "name", "is_near"),
    [
        ("x", "max", True),  # two characters are gone
        ("mx", "max", True),
        ("maax", "max", True),  # one stands twice
        ("typee", "type", True),
        ("min", "max", False),
        ("p999", "p99", False),  # figures are names of their own
        ("p9", "p99", False),
        ("types", "type", False),
    ],
)
def test_short_names(word: str, name: str, is_near: bool) -> None:
    assert is_near_name(word, name) is is_near
