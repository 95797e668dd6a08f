"""Each exercise's fix, compared with what it mends: comparable, and confirmed where it can be."""

from __future__ import annotations

import json

import pytest

from sightline.lab.exercises import list_exercises
from support.campaigns import sample
from support.command import sightline

PAIRS = {
    exercise.name: [exercise.find_recording(side) for side in ("baseline", "improved")]
    for exercise in list_exercises()
    if exercise.finding and all(map(exercise.find_recording, ("baseline", "improved")))
}


@pytest.mark.parametrize("name", sample(list(PAIRS), 4))
def test_a_fix_is_comparable_and_never_called_slower(name: str) -> None:
    before, after = PAIRS[name]
    outcome = sightline("compare", "--before", before, "--after", after, "--json")
    answer = json.loads(outcome.out)
    verdict = answer["verdict"]
    assert [c["text"] for c in answer["checks"] if c["effect"] == "blocks"] == []
    assert answer["step"]["delta_ns"] < 0
    if verdict["word"] != "faster":
        # One run a side cannot see so small a change, and says which it could.
        assert verdict["word"] in ("inconclusive", "no change")
        assert verdict["reasons"]
