"""How often each excerpt stands in a run, so that together they make the run's exact totals.

Weights that reproduce known totals are calibrated ones (Deville and Särndal, Calibration estimators
in survey sampling, JASA 87, 1992). Here they are the least squares solution that is nowhere
negative, held near equal weights where excerpts are too alike to be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# How much equal weights count beside the totals: little, so that they decide only what totals leave
# open (ours).
_RIDGE = 0.001


def weigh(sums: Sequence[Sequence[float]], totals: Sequence[float]) -> tuple[float, ...]:
    """One weight for each excerpt, none negative: their sums times these are near the totals.

    The first of the totals is a length, which is reproduced exactly. All are in one unit.
    """
    parts = np.asarray(sums, dtype=np.float64).T
    whole = np.asarray(totals, dtype=np.float64)
    lengths = parts[0]
    best: tuple[float, Array] | None = None
    count = parts.shape[1]
    equal = np.full(count, whole[0] / lengths.sum())
    for size in range(count, 0, -1):
        for chosen in combinations(range(count), size):
            weights = _solve(parts, whole, list(chosen))
            if (weights < 0).any():
                continue
            miss = float(((parts @ weights - whole) ** 2).sum())
            miss += _RIDGE * float((((weights - equal) * lengths) ** 2).sum())
            if best is None or miss < best[0]:
                best = miss, weights
    weights = equal if best is None else best[1]
    covered = float(weights @ lengths)
    if covered <= 0:
        return tuple(float(w) for w in equal)
    return tuple(float(w) for w in weights * whole[0] / covered)


def _solve(parts: Array, whole: Array, chosen: list[int]) -> Array:
    """The least squares weights of the chosen excerpts; the others have none."""
    lengths = parts[0, chosen]
    held = np.sqrt(_RIDGE) * np.diag(lengths)
    equal = np.sqrt(_RIDGE) * lengths * (whole[0] / parts[0].sum())
    found, *_ = np.linalg.lstsq(
        np.vstack([parts[:, chosen], held]), np.concatenate([whole, equal]), rcond=None
    )
    weights = np.zeros(parts.shape[1])
    weights[chosen] = found
    return weights


def measure_miss(
    sums: Sequence[Sequence[float]], totals: Sequence[float], weights: Sequence[float]
) -> float:
    """The largest distance of a total from what the weighted excerpts make of it, of the length."""
    made = np.asarray(sums, dtype=np.float64).T @ np.asarray(weights)
    return float(np.abs(made - np.asarray(totals)).max() / max(totals[0], 1))
