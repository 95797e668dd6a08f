"""A trial as data, and what may have disturbed it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from experiment.noise import MACHINES, make_outcome, simulate_trial
from sightline.errors import RequestError
from sightline.experiment.describe import describe_trial
from sightline.experiment.disturbances import list_disturbances
from sightline.experiment.judge import Aim
from sightline.experiment.rounds import ALL_RUNS, Round, Trial
from sightline.experiment.variants import Variant
from sightline.experiment.why import choose_sides

VARIANTS = [Variant("A", ("a",)), Variant("B", ("b",)), Variant("C", ("c",))]


def _describe(*seconds: float, kind: str = "normal", **options: Any) -> dict[str, Any]:
    dice = random.Random(str(seconds))
    trial = simulate_trial(MACHINES[kind](dice), seconds, dice)
    return describe_trial(VARIANTS[: len(seconds)], trial, Aim(), "ns", **options)


def test_pairs_hold_what_was_planted() -> None:
    data = _describe(1.0, 0.8, 1.6)
    found = {(pair["variant"], pair["against"]): pair for pair in data["differences"]}
    for pair, change, answer in (
        (("B", "A"), -20, "faster"),
        (("C", "A"), 60, "slower"),
        (("C", "B"), 100, "slower"),
    ):
        assert found[pair]["low_pct"] <= change <= found[pair]["high_pct"]
        assert found[pair]["answer"] == answer
    assert data["fastest"] == "B"
    assert choose_sides(data) == ("A", "B", True)
    assert len(data["runs"]) == 3 * data["rounds"]


def test_the_fastest_first_is_explained_by_what_differs_most() -> None:
    assert choose_sides(_describe(1.0, 1.5, 2.5)) == ("A", "C", False)
    assert choose_sides(_describe(1.0, 1.0)) is None


def test_of_tokens_a_second_more_is_better() -> None:
    """The greater value is the fastest, and changes are those of the values."""
    data = _describe(100.0, 150.0, more_is_better=True)
    (pair,) = data["differences"]
    assert data["fastest"] == "B"
    assert pair["answer"] == "faster"
    assert pair["low_pct"] <= 50 <= pair["high_pct"]
    assert pair["low_pct"] > 0


def test_what_is_open_says_what_would_tell() -> None:
    dice = random.Random(8)
    trial = simulate_trial(MACHINES["normal"](dice), [1.0, 1.02], dice, runs=6)
    (pair,) = describe_trial(VARIANTS[:2], trial, Aim(), "ns")["differences"]
    assert pair["answer"] == "open"
    assert pair["rounds_to_know"] > pair["rounds_to_tell_apart"] > 0


def test_no_whole_round() -> None:
    with pytest.raises(RequestError, match="interrupted"):
        describe_trial(VARIANTS, Trial([], ALL_RUNS), Aim(), "ns")


def _make_rounds(seconds: list[list[float]], around: list[dict[str, Any]]) -> list[Round]:
    return [Round([make_outcome(s) for s in row], [0, 1], around) for row in seconds]


def test_quiet_rounds_say_nothing() -> None:
    rounds = _make_rounds([[1.0, 1.1]] * 9, [{"others_cpus": 0.1, "gpus": []}] * 2)
    assert list_disturbances(["A", "B"], rounds, 0) == []


def test_neighbors_clocks_drift_and_warmup_are_said() -> None:
    gpus = [
        {"name": "H100", "sm_mhz": mhz, "limited_pct": 40.0, "utilization_pct": 90.0, "celsius": 80}
        for mhz in (1980.0, 1755.0)
    ]
    around = [{"others_cpus": 1.5, "stolen_cpus": 0.0, "gpus": [gpu]} for gpu in gpus]
    seconds = [[3.0, 1.1], *([1 + 0.02 * k, 1.1 + 0.022 * k] for k in range(9))]
    told = list_disturbances(["A", "B"], _make_rounds(seconds, around), 1)
    for words in (
        "first run of A took 2.8 times as long",
        "Other programs took 1.5 of",
        "during all 18 runs",
        "1,755 MHz under B and at 1,980 MHz under A",
        "held back by its power cap or its heat for 40.0 %",
        "became 11.8 % slower",
    ):
        assert sum(words in sentence for sentence in told) == 1, (words, told)


def test_a_gpu_that_nobody_uses_is_not_spoken_of() -> None:
    gpu = {"name": "H100", "sm_mhz": 300.0, "limited_pct": 0.0, "utilization_pct": 0.0}
    around = [{"gpus": [gpu]}, {"gpus": [{**gpu, "sm_mhz": 1900.0}]}]
    assert list_disturbances(["A", "B"], _make_rounds([[1.0, 1.1]] * 4, around), 0) == []
