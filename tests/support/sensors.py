"""Power curves whose integral is known, through models of how GPUs measure and publish them.

Nothing of `sightline.timeline.energy` is used: what a sensor shows is computed from the curve.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from random import Random

MS = 1_000_000


class Curve:
    """Watts that change at times (ns) and stay between them."""

    def __init__(self, times: list[int], watts: list[float]) -> None:
        self.times, self.watts = times, watts
        lengths = (b - a for a, b in pairwise(times))
        used = (w * n / 1e9 for w, n in zip(watts, lengths, strict=False))
        self._joules = [0.0, *accumulate(used)]

    def joules(self, at: int) -> float:
        """Used since the curve's first time."""
        place = max(bisect_right(self.times, at) - 1, 0)
        return self._joules[place] + self.watts[place] * (at - self.times[place]) / 1e9

    def mean(self, begin: int, end: int) -> float:
        """Watts, on average."""
        return (self.joules(end) - self.joules(begin)) / ((end - begin) / 1e9)


def make_curve(random: Random, seconds: float) -> Curve:
    """A training loop: steps with a busy and an idle part, and a pause now and then."""
    idle, busy = random.uniform(40, 120), random.uniform(200, 700)
    step = random.uniform(0.005, 1.5) * 1e9
    times, watts, at = [0], [idle], 10**9
    while at < seconds * 1e9:
        share = random.uniform(0.3, 0.95)
        times += [int(at), int(at + share * step)]
        watts += [busy * random.uniform(0.8, 1.0), idle * random.uniform(0.9, 1.1)]
        at += step * random.uniform(0.8, 1.2) + (1e9 if random.random() < 0.02 else 0)
    return Curve(times, watts)


Samples = list[tuple[int, float]]


def read_counter(
    random: Random, curve: Curve, seconds: float, update_ns: int, poll_ns: int
) -> Samples:
    """A counter in mJ that is updated at its own pace, read at another's."""
    phase, begin = random.randrange(update_ns), random.uniform(0, 1e6)
    samples = []
    at = 0
    while at < seconds * 1e9:
        updated = max(0, (at - phase) // update_ns * update_ns + phase)
        samples.append((at, begin + int(curve.joules(updated) * 1000) / 1000))
        at += int(poll_ns * random.uniform(0.9, 1.3))
    return samples


def read_power(
    random: Random, curve: Curve, seconds: float, *, window_ns: int, update_ns: int, poll_ns: int
) -> Samples:
    """Power that is made anew every `update_ns` from the `window_ns` before that."""
    phase = random.randrange(update_ns)
    samples = []
    at = window_ns + update_ns
    while at < seconds * 1e9:
        updated = (at - phase) // update_ns * update_ns + phase
        samples.append((at, round(curve.mean(updated - window_ns, updated), 3)))
        at += int(poll_ns * random.uniform(0.9, 1.3))
    return samples
