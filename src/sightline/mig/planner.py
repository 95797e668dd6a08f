"""The plan that serves most workloads on the fewest GPUs with the least excess, proven to be it.

Each GPU gets one of the mixes of profiles to which nothing can be added (28 of eight slots: 12
without the profile of double memory), each want some of the profiles that are enough for it. That
is an integer program of a few hundred variables whatever the fleet's size, which HiGHS (in SciPy)
solves to optimality, goal by goal: what is not served, then GPUs, then what instances have beyond
the need. tests/mig compares it with plain search over all placements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sightline.core.optional_packages import load_package
from sightline.errors import RequestError
from sightline.mig.models import WHOLE, Model
from sightline.mig.placements import Counts, Item, Layout, Waste, list_mixes
from sightline.mig.wants import Want, list_fitting, measure_excess

MOST_GPUS = 100_000
_MEDIA_PROFILE = "1g+me"


class Served(NamedTuple):
    """An instance of a GPU, and the want that it serves."""

    key: str
    start: int
    want: int  # place in the list of wants


@dataclass(frozen=True)
class CutGpu:
    """`count` GPUs that are cut alike. No instances and a want: not cut, and one's alone."""

    model: Model
    count: int
    instances: tuple[Served, ...]
    whole_for: int | None = None

    @property
    def layout(self) -> Layout:
        """Its instances in order of their slots."""
        return tuple(Item(one.key, one.start) for one in self.instances)

    def measure_waste(self) -> Waste:
        """What of one of these GPUs no instance has."""
        if self.whole_for is not None:
            return Waste(0, 0, 0)
        family = self.model.family
        shapes = [family.find_shape(one.key) for one in self.instances]
        sms = [self.model.sizes[one.key].sms for one in self.instances]
        known = self.model.sms is not None and all(n is not None for n in sms)
        return Waste(
            family.compute - sum(shape.compute for shape in shapes),
            family.memory - sum(shape.memory for shape in shapes),
            (self.model.sms or 0) - sum(n or 0 for n in sms) if known else None,
        )


@dataclass(frozen=True)
class Plan:
    """GPUs by how they are cut, and how many of each want found no place."""

    wants: tuple[Want, ...]
    gpus: tuple[CutGpu, ...]
    unserved: tuple[int, ...]
    excess: float  # of all instances: shares of a GPU's memory and SMs beyond the need

    @property
    def used(self) -> int:
        """GPUs that serve something."""
        return sum(gpu.count for gpu in self.gpus)


class _Problem(NamedTuple):
    """Columns: GPUs of each mix; instances of each want, model and profile; what is not served."""

    mixes: list[tuple[int, Counts, Layout]]  # model, counts of profiles, where they lie
    serves: list[tuple[int, int, str]]  # want, model, profile
    wants: Sequence[Want]

    @property
    def first_unserved(self) -> int:
        return len(self.mixes) + len(self.serves)

    @property
    def width(self) -> int:
        return self.first_unserved + len(self.wants)


def plan_gpus(
    fleet: Sequence[tuple[Model, int]],
    wants: Sequence[Want],
    *,
    only: Mapping[str, Counts] | None = None,
) -> Plan:
    """The best plan for these GPUs; `only` cuts all used GPUs of a model alike.

    Raises RequestError where there is nothing to plan, or more than can be.
    """
    if not wants or not fleet:
        raise RequestError(
            "there is nothing to plan", hint="sightline mig --gpu H100-80GB --want 1g.10gb:3"
        )
    if sum(count for _, count in fleet) > MOST_GPUS:
        raise RequestError(f"a plan covers {MOST_GPUS:,} GPUs at most")
    needs_media = any(
        _MEDIA_PROFILE in list_fitting(want, model) for want in wants for model, _ in fleet
    )
    without = frozenset() if needs_media else frozenset({_MEDIA_PROFILE})
    mixes: list[tuple[int, Counts, Layout]] = []
    for place, (model, _) in enumerate(fleet):
        own = list_mixes(model.family, without)
        chosen = [only[model.name]] if only and model.name in only else list(own)
        mixes += [(place, counts, own[counts]) for counts in chosen]
        if any(list_fitting(want, model) == [WHOLE] for want in wants):
            mixes.append((place, ((WHOLE, 1),), ()))
    serves = [
        (want, place, key)
        for want, one in enumerate(wants)
        for place, (model, _) in enumerate(fleet)
        for key in list_fitting(one, model)
    ]
    problem = _Problem(mixes, serves, wants)
    solution = _solve(problem, fleet)
    return _decode(problem, fleet, solution)


class _Row(NamedTuple):
    """A sum of columns, each by a factor, and between what it must lie."""

    columns: Mapping[int, float]
    low: float
    high: float


def _solve(problem: _Problem, fleet: Sequence[tuple[Model, int]]) -> list[int]:
    """The columns' values: goal by goal, each held while the next is sought."""
    import numpy as np

    optimize: Any = load_package("scipy.optimize", "scipy", "plans are found by SciPy")

    def spread(columns: Mapping[int, float]) -> Any:
        values = np.zeros(problem.width)
        values[list(columns)] = list(columns.values())
        return values

    rows = list(_list_limits(problem, fleet))
    values: Any = None
    for goal in _list_goals(problem, fleet):
        answer = optimize.milp(
            spread(goal),
            integrality=np.ones(problem.width),
            constraints=optimize.LinearConstraint(
                np.array([spread(row.columns) for row in rows]),
                [row.low for row in rows],
                [row.high for row in rows],
            ),
            options={"mip_rel_gap": 0.0},
        )
        assert answer.success, answer.message  # to leave all unserved is always possible
        values = answer.x
        # All goals but the last one count things; nothing is held for the last.
        rows.append(_Row(goal, -np.inf, round(answer.fun) + 0.5))
    return [round(value) for value in values]


def _list_limits(problem: _Problem, fleet: Sequence[tuple[Model, int]]) -> Iterator[_Row]:
    """No more GPUs than there are, no more instances than they have, each want served or not."""
    mixes, serves = problem.mixes, problem.serves
    for place, (_, count) in enumerate(fleet):
        yield _Row({n: 1.0 for n, mix in enumerate(mixes) if mix[0] == place}, 0, count)
    for place, key in sorted({(place, key) for _, place, key in serves}):
        has = {
            n: -float(dict(counts).get(key, 0))
            for n, (model, counts, _) in enumerate(mixes)
            if model == place
        }
        takes = {len(mixes) + n: 1.0 for n, serve in enumerate(serves) if serve[1:] == (place, key)}
        yield _Row({**has, **takes}, -math.inf, 0)
    for number, want in enumerate(problem.wants):
        served = {len(mixes) + n: 1.0 for n, serve in enumerate(serves) if serve[0] == number}
        yield _Row({**served, problem.first_unserved + number: 1.0}, want.count, want.count)


def _list_goals(
    problem: _Problem, fleet: Sequence[tuple[Model, int]]
) -> Iterator[Mapping[int, float]]:
    """What is made as small as it can be, goal by goal; the last one alone has fractions."""
    mixes, wants, first = problem.mixes, problem.wants, problem.first_unserved
    yield {first + n: 1.0 for n in range(len(wants))}
    # Who comes first is served first.
    yield {first + n: float(len(wants) - n) for n in range(len(wants))}
    yield dict.fromkeys(range(len(mixes)), 1.0)
    yield {
        len(mixes) + n: measure_excess(wants[want], fleet[place][0], key)
        for n, (want, place, key) in enumerate(problem.serves)
    }


def _decode(problem: _Problem, fleet: Sequence[tuple[Model, int]], solution: list[int]) -> Plan:
    """GPU by GPU: which want has which instance of it."""
    mixes, serves, wants = problem.mixes, problem.serves, problem.wants
    waiting: dict[tuple[int, str], list[list[int]]] = {}  # of model and profile: [want, count]
    excess = 0.0
    for value, (want, place, key) in zip(solution[len(mixes) :], serves, strict=False):
        if value:
            waiting.setdefault((place, key), []).append([want, value])
            excess += value * measure_excess(wants[want], fleet[place][0], key)
    cut: dict[tuple[int, tuple[Served, ...], int | None], int] = {}
    for value, (place, counts, layout) in zip(solution, mixes, strict=False):
        for _ in range(value):
            served = tuple(
                Served(key, start, taken)
                for key, start in layout
                if (taken := _take(waiting, place, key)) is not None
            )
            whole_for = _take(waiting, place, WHOLE) if counts == ((WHOLE, 1),) else None
            if served or whole_for is not None:
                used = (place, served, whole_for)
                cut[used] = cut.get(used, 0) + 1
    gpus = tuple(
        CutGpu(fleet[place][0], count, served, whole)
        for (place, served, whole), count in sorted(cut.items(), key=lambda item: item[0][0])
    )
    unserved = tuple(solution[len(mixes) + len(serves) :])
    return Plan(tuple(wants), gpus, unserved, excess)


def _take(waiting: dict[tuple[int, str], list[list[int]]], place: int, key: str) -> int | None:
    """The next want that waits for a profile of a model."""
    queue = waiting.get((place, key))
    if not queue:
        return None
    want = queue[0][0]
    queue[0][1] -= 1
    if queue[0][1] == 0:
        queue.pop(0)
    return want


class Alternative(NamedTuple):
    """All GPUs cut alike, as the configurations of mig-parted are."""

    mix: Counts
    plan: Plan


def list_alternatives(
    model: Model, count: int, wants: Sequence[Want], most: int = 3
) -> list[Alternative]:
    """One cut for all GPUs, best first: unserved, GPUs, excess. Each mix is a plan by itself."""
    found = [
        Alternative(mix, plan_gpus([(model, count)], wants, only={model.name: mix}))
        for mix in list_mixes(model.family, frozenset({_MEDIA_PROFILE}))
    ]
    found.sort(key=lambda one: (sum(one.plan.unserved), one.plan.used, one.plan.excess))
    return found[:most]
