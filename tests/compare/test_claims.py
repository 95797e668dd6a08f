"""What a claim file may hold, and when a claim is true, false, or open."""

from __future__ import annotations

import json

import pytest

from sightline.compare.claim_figures import Figure
from sightline.compare.claim_rulings import NO, OPEN, YES, rule_claim
from sightline.compare.claims import MOST_BYTES, read_claims
from sightline.errors import InputError

CHANGE = {"before": "a", "after": "b", "metric": "step_ns"}


def _read(**keys: object):
    (claim,) = read_claims(json.dumps(keys).encode(), "claim.json")
    return claim


@pytest.mark.parametrize(
    ("digits", "within"), [("-12", 0.5), ("-12.0", 0.05), ("-12.25", 0.005), ("12e1", 5.0)]
)
def test_a_number_is_meant_as_exactly_as_it_is_written(digits: str, within: float) -> None:
    text = json.dumps({**CHANGE, "change_pct": 0}).replace(": 0}", f": {digits}}}")
    (claim,) = read_claims(text.encode(), "claim.json")
    assert claim.value == float(digits)
    assert claim.within == pytest.approx(within)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({**CHANGE, "change_pc": -1}, "did you mean change_pct"),
        ({**CHANGE}, "it needs one of change_pct"),
        ({**CHANGE, "change_pct": -1, "change_at_most_pct": 0}, "it needs one of change_pct"),
        ({**CHANGE, "change_pct": "-1"}, "'change_pct' is not a number"),
        ({**CHANGE, "change_pct": True}, "'change_pct' is not a number"),
        ({**CHANGE, "change_pct": -1, "within_pct": -1}, "is less than 0"),
        ({**CHANGE, "before": [], "change_pct": -1}, "'before' and 'after'"),
        ({**CHANGE, "before": 5, "change_pct": -1}, "'before' is neither a path"),
        ({**CHANGE, "before": "a\0", "change_pct": -1}, "'before' is neither a path"),
        ({"recording": "a", "is": 1}, "one of finding, kernel, analysis, sql"),
        ({"recording": "a", "sql": "q", "kernel": "k", "is": 1}, "one of finding"),
        ({"recording": "a", "analysis": "breakdown", "is": 1}, "the 'column'"),
        (
            {"recording": "a", "analysis": "b", "column": "c", "where": [1], "is": 1},
            "not an object",
        ),
    ],
)
def test_what_is_no_claim_says_why(keys: dict[str, object], why: str) -> None:
    with pytest.raises(InputError) as raised:
        _read(**keys)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[[]]",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
        b'{"recording": "a", "sql": "q", "is": NaN}',
        b'{"recording": "a", "sql": "q", "is": 1e999999999}',
        b'{"recording": "a", "sql": "q", "is": ' + b"9" * 100_000 + b"}",
        b'{"recording": "a", "analysis": "b", "column": "c", "where": {"d": 1e999999}, "is": 1}',
    ],
)
def test_hostile_files_end_with_a_message(data: bytes) -> None:
    with pytest.raises(InputError):
        read_claims(data, "claim.json")


SURE = Figure(-12.2, "%", -14.0, -10.5)
CHANCE = Figure(-3.0, "%", -8.0, 2.5, is_shown=False)


@pytest.mark.parametrize(
    ("figure", "said", "word"),
    [
        (SURE, {"change_pct": -12}, YES),
        (SURE, {"change_pct": -13}, OPEN),  # it may be; what was measured is another value
        (SURE, {"change_pct": -20}, NO),
        (SURE, {"change_pct": 12}, NO),
        (SURE, {"change_pct": 0}, NO),
        (SURE, {"change_at_most_pct": -10}, YES),
        (SURE, {"change_at_most_pct": -12}, OPEN),
        (SURE, {"change_at_most_pct": -15}, NO),
        (SURE, {"change_at_least_pct": -15}, YES),
        (SURE, {"change_at_least_pct": 0}, NO),
        (CHANCE, {"change_pct": -3}, OPEN),
        (CHANCE, {"change_pct": -12}, NO),
        (CHANCE, {"change_pct": 0}, OPEN),
        (CHANCE, {"change_pct": 0, "within_pct": 9}, YES),
        (Figure(-4.0, "%", -7.0, -1.0), {"change_pct": 0, "within_pct": 5}, OPEN),
        (Figure(None, "%", reasons=("not comparable",)), {"change_pct": -12}, OPEN),
        (Figure(-12.0, "%", is_shown=False), {"change_pct": -12}, OPEN),
    ],
)
def test_rulings_on_changes(figure: Figure, said: dict[str, float], word: str) -> None:
    assert rule_claim(_read(**CHANGE, **said), figure)[0] == word


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"is": 63}, YES),  # the bound itself, as the report has it
        ({"is": 30}, OPEN),
        ({"is": 70}, NO),
        ({"at_least": 70}, NO),
        ({"at_least": 30}, OPEN),
        ({"at_most": 64}, YES),
    ],
)
def test_a_gain_is_a_bound(said: dict[str, float], word: str) -> None:
    claim = _read(recording="a", finding="dataloader-starved", column="gain_pct", **said)
    assert rule_claim(claim, Figure(63.4, "%", 0.0, 63.4))[0] == word
