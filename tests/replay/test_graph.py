"""The dependency graph: everything comes after what it waited for."""

from __future__ import annotations

import polars as pl
import pytest

from support.simulated import WITH_DEVICE, simulated


def nodes_of(scenario, seed=0, dialect="2025"):
    return simulated(scenario, seed, dialect).run.ask("dependencies")


@pytest.mark.parametrize("scenario", WITH_DEVICE)
def test_causes_come_first(scenario):
    nodes = nodes_of(scenario)
    for edge in ("prev", "launch", "wait"):
        assert nodes.filter(pl.col(edge) >= pl.col("node")).is_empty()
    # A residual is never negative: no lag says more than was recorded.
    begun = nodes.filter(pl.any_horizontal(pl.col("prev", "launch", "wait").is_not_null()))
    assert begun.get_column("residual_ns").min() >= 0
