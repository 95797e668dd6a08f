"""How often excerpts stand in a run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.diagnosis.sampling.weights import measure_miss, weigh

AMOUNTS = st.floats(0, 1e9)
PARTS = st.lists(st.tuples(st.floats(1, 1e9), AMOUNTS, AMOUNTS), min_size=1, max_size=4)


def test_totals_that_excerpts_can_make_are_made() -> None:
    quick, slow = (10.0, 8.0, 2.0), (30.0, 8.0, 22.0)
    totals = [90 * a + 5 * b for a, b in zip(quick, slow, strict=True)]
    weights = weigh([quick, slow], totals)
    assert weights == pytest.approx((90, 5), rel=0.02)
    assert measure_miss([quick, slow], totals, weights) < 0.01


def test_excerpts_that_are_alike_share() -> None:
    assert weigh([(10.0, 4.0)] * 2, (100.0, 40.0)) == pytest.approx((5, 5))


def test_what_is_unlike_the_run_has_no_weight() -> None:
    assert weigh([(10.0, 0.0), (10.0, 10.0)], (100.0, 0.0)) == pytest.approx((10, 0), abs=0.1)


@settings(max_examples=40)
@given(parts=PARTS, rest=st.tuples(st.floats(1, 1e12), AMOUNTS, AMOUNTS))
def test_no_weight_is_negative_and_the_length_is_exact(
    parts: list[tuple[float, float, float]], rest: tuple[float, float, float]
) -> None:
    weights = weigh(parts, rest)
    assert min(weights) >= 0
    made = sum(w * part[0] for w, part in zip(weights, parts, strict=True))
    assert made == pytest.approx(rest[0], rel=1e-9)
