"""How often to write checkpoints, and what share of the time is work then.

All times of one unit. `cost` is how long writing one takes while nothing else is done, `restart`
from a failure until work goes on, `mtbf` of the whole job. Young 1974: sqrt(2 C M); Daly 2006: his
series of higher order, and the expected length of a run that can fail at any moment, restarts too.
"""

from __future__ import annotations

import math
import random

# Further away no optimum is: an interval of a thousand MTBFs never ends.
_MOST_STEPS = 200


def choose_young(cost: float, mtbf: float) -> float:
    """Work between two checkpoints by Young's first-order formula."""
    return math.sqrt(2 * cost * mtbf)


def choose_daly(cost: float, mtbf: float) -> float:
    """Work between two checkpoints by Daly's formula of higher order."""
    if cost >= 2 * mtbf:
        return mtbf
    ratio = cost / (2 * mtbf)
    return math.sqrt(2 * cost * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def predict_goodput(interval: float, cost: float, restart: float, mtbf: float) -> float:
    """The share of time that is work which is not lost, with failures at random."""
    if mtbf == math.inf:
        return interval / (interval + cost)
    try:
        length = mtbf * math.exp(restart / mtbf) * math.expm1((interval + cost) / mtbf)
    except OverflowError:  # it never gets to its next checkpoint
        return 0.0
    return interval / length


def find_best(cost: float, restart: float, mtbf: float) -> float:
    """The interval of most goodput: a search between far too short and far too long."""
    low, high = math.log(min(cost, mtbf) / 1e3 + 1e-12), math.log(100 * mtbf + cost)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_MOST_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _log_goodput(left, cost, mtbf) > _log_goodput(right, cost, mtbf):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def _log_goodput(log_interval: float, cost: float, mtbf: float) -> float:
    """The logarithm, which no length overflows; the restart only scales it."""
    interval = math.exp(log_interval)
    exponent = (interval + cost) / mtbf
    lost = exponent if exponent > 50 else math.log(math.expm1(exponent))
    return log_interval - lost


def simulate_goodput(
    interval: float,
    cost: float,
    restart: float,
    mtbf: float,
    *,
    failures: int = 20_000,
    seed: int = 1,
    shape: float = 1.0,
) -> float:
    """The same share on a simulated job, moment by moment, over so many failures.

    `shape` is of a Weibull distribution with this mean; 1: at random. It shares nothing with
    `predict_goodput`.
    """
    random_source = random.Random(seed)  # noqa: S311  # a simulation, no secret
    scale = mtbf / math.gamma(1 + 1 / shape)
    now = kept = 0.0
    restarting = 0.0  # what is left of a restart
    for _ in range(failures):
        left = random_source.weibullvariate(scale, shape)
        now += left
        if restarting >= left:  # it fails again before work goes on: the restart begins anew
            restarting = restart
            continue
        left -= restarting
        kept += interval * math.floor(left / (interval + cost))
        restarting = restart
    return kept / now
