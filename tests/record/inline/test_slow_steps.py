"""A program that becomes slower is told once, and a healthy hour never."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.record.inline.slow_steps import SlowSteps

HOUR = 3600


def healthy(seed: int, steps: int) -> list[int]:
    """Steps of 100 ms with noise of 3 %, and one in 300 held up by 50 ms for itself."""
    dice = np.random.default_rng(seed)
    length = dice.normal(100e6, 3e6, steps) + 50e6 * (dice.random(steps) < 1 / 300)
    return length.astype(int).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_hour_of_steps(seed: int) -> None:
    watched = SlowSteps()
    assert not any(watched.add(step) for step in healthy(seed, 10 * HOUR))


def test_a_program_that_becomes_slower_fires_once() -> None:
    """By a tenth, from step 5,000 on: at the fourth slow step, and then it is the usual."""
    watched = SlowSteps()
    steps = healthy(9, 8000)
    steps[5000:] = [step + 10_000_000 for step in steps[5000:]]
    fired = [at for at, step in enumerate(steps) if watched.add(step)]
    assert len(fired) == 1
    assert 5003 <= fired[0] < 5050
