"""Plots of a job: figures that a person reads, and names that lie in the plot."""

from __future__ import annotations

import re

import numpy as np

from sightline.views.cluster.charts import draw_lines


def test_axes_have_no_powers_of_ten_and_names_are_inside():
    """A peak of 2,500 GFLOP/s was labelled 2.5e+03, and its name was cut at the plot's top."""
    drawn = draw_lines(
        "flops_any", [("n1", np.array([1.0, 840.0]))], 60, "GFLOP/s", [("peak", 2500.0)]
    )
    assert "e+0" not in drawn
    assert ">2,500<" in drawn
    (place,) = re.findall(r'y="([\d.]+)"[^>]*>peak<', drawn)
    assert float(place) >= 10
