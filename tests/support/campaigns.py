"""How much of a long sweep runs: all of it in `make sweep`, a sample in `make test`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import Any, TypeVar

Item = TypeVar("Item")

CAMPAIGNS = os.environ.get("SIGHTLINE_CAMPAIGNS", "0") not in ("", "0")


def sample(items: Sequence[Item], every: int) -> Sequence[Item]:
    """Every n-th of the items; all of them in a campaign."""
    return items if CAMPAIGNS else items[::every]


def cover(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations in which each value of each axis comes; all combinations in a campaign."""
    if CAMPAIGNS:
        return list(product(*axes))
    most = max(map(len, axes))
    return [tuple(axis[n % len(axis)] for axis in axes) for n in range(most)]


def examples(count: int) -> int:
    """How many examples Hypothesis tries: a sixth, or all in a campaign."""
    return count if CAMPAIGNS else max(8, count // 6)
