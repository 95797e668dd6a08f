"""Plots of a job: figures that a person reads, and names that lie in the plot."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sightline.views.cluster.charts import draw_lines, list_moments, round_up


def test_axes_have_no_powers_of_ten_and_names_are_inside():
    """A peak of 2,500 GFLOP/s was labelled 2.5e+03, and its name was cut at the plot's top."""
    drawn = draw_lines(
        "flops_any", [("n1", np.array([1.0, 840.0]))], 60, "GFLOP/s", [("peak", 2500.0)]
    )
    assert "e+0" not in drawn
    assert ">2,500<" in drawn
    (place,) = re.findall(r'y="([\d.]+)"[^>]*>peak<', drawn)
    assert float(place) >= 10


@pytest.mark.parametrize(
    ("value", "top"),
    [(5.23, 6), (87.7, 100), (100, 100), (101, 120), (817, 1000), (2_500, 2_500), (0.3, 0.3),
     (256, 300), (0, 1)],
)  # fmt: skip
def test_an_axis_ends_at_a_short_number(value: float, top: float) -> None:
    assert round_up(value) == pytest.approx(top)


@pytest.mark.parametrize(
    ("seconds", "moments"),
    [
        (7_296, [0, 1_800, 3_600, 5_400, 7_200]),
        (60, [0, 15, 30, 45, 60]),
        (3_600, [0, 900, 1_800, 2_700, 3_600]),
        (30 * 86_400, [86_400 * n for n in (0, 8, 16, 24)]),
        (0, []),
    ],
)
def test_time_has_steps_of_a_clock(seconds: float, moments: list[float]) -> None:
    assert list_moments(seconds) == moments


def test_shares_end_at_100_where_they_come_near() -> None:
    drawn = draw_lines("acc_sm_active", [("n1 0", np.array([10.0, 87.7]))], 7_296, "%")
    assert re.findall(r'text-anchor="end">([\d.,]+)<', drawn) == ["0", "50", "100"]
    assert re.findall(r">([\d:]+ h)<", drawn) == ["0:30 h", "1:00 h", "1:30 h", "2:00 h"]
