"""Which tests `make test` runs: a sample that has each file, each member and each kind of case.

The choice is by tests/costs.tsv and the names of tests alone: the same whoever asks, and whenever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

from sightline.core import registry

LONG_S = 0.1  # a test that takes as much is long
MEMBERS_S = 1.0  # what a case of each member may take in all
# What a file of a rule calls in the tests that `make test` always runs one of.
_BOTH = ("assert_speaks", "assert_silent")


def name_function(case: str) -> str:
    """The test function of a case."""
    return case.split("[")[0].split("@")[0]


def choose_shortest(items: Iterable[pytest.Item], costs: dict[str, float]) -> list[pytest.Item]:
    """The test of each file that takes least, the first of several.

    No long sweep, of which only a campaign runs any; one that rests on time where all do.
    """
    tests: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("campaign") is None:
            tests[item.path].append(item)

    def rank(item: pytest.Item) -> tuple[bool, float]:
        is_timed = item.get_closest_marker("timing") is not None
        return is_timed, costs.get(name_function(item.nodeid), 0.0)

    return [min(every, key=rank) for every in tests.values()]


def choose_long(
    items: Iterable[pytest.Item], costs: dict[str, float], seconds: float
) -> list[pytest.Item]:
    """The items, but of a file's long tests only as many as take so many seconds in all.

    The shortest of them, and one more where nothing else of the file would run, or none where a
    rule speaks, or none where it is silent. Tests marked `timing` have seconds of their own, since
    they run apart. What a campaign alone runs is skipped anyway, and counts for nothing.
    """

    def take(item: pytest.Item) -> float:
        return costs.get(name_function(item.nodeid), 0.0)

    kept, long = list[pytest.Item](), defaultdict[tuple[bool, Path], list[pytest.Item]](list)
    said = defaultdict[Path, set[str]](set)  # by what of a file stays
    for item in items:
        is_campaign = item.get_closest_marker("campaign") is not None
        if take(item) >= LONG_S and not is_campaign:
            long[item.get_closest_marker("timing") is not None, item.path].append(item)
            continue
        kept.append(item)
        if not is_campaign:
            said[item.path] |= {"a test", *list_judgements(item)}
    for (_, path), every in sorted(long.items(), key=lambda found: found[0]):
        every.sort(key=take)
        for item, spent in zip(every, accumulate(map(take, every)), strict=True):
            missing = {"a test", *list_judgements(item)} - said[path]
            if spent <= seconds or missing:
                kept.append(item)
                said[path] |= missing
    return kept


def list_judgements(item: pytest.Item) -> set[str]:
    """Which of the two a test asks itself: that a rule speaks, that it is silent."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return set() if code is None else {name for name in _BOTH if name in code.co_names}


def choose_sample(
    items: Iterable[pytest.Item], costs: dict[str, float], seconds: float, most: int
) -> list[pytest.Item]:
    """The items with some cases of each function, evenly spread, and one of each member.

    As many as take so many seconds by the costs, and at most so many; one at least. A function that
    asks the same of each rule, analysis, importer or other member of the house asks it of all, if
    that takes no more than a second.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[name_function(item.nodeid)].append(item)
    chosen = []
    for function, every in cases.items():
        few = min(most, len(every))
        if function in costs:
            few = min(few, max(1, int(seconds / costs[function])))
        places = {number * len(every) // few for number in range(few)}
        members = find_members([item.nodeid for item in every])
        if costs.get(function, 0.0) * len(members) <= MEMBERS_S:
            places |= members
        chosen += [every[place] for place in sorted(places)]
    return chosen


def find_members(cases: list[str]) -> set[int]:
    """The place of the first case of each member of the house that cases are named after."""
    members = list_members()
    first: dict[str, int] = {}
    for place, case in enumerate(cases):
        parts = case.partition("[")[2].split("@")[0].rstrip("]").replace("-", "_").split("_")
        for end in range(len(parts), 0, -1):
            if (name := "_".join(parts[:end])) in members:
                first.setdefault(name, place)
                break
    return set(first.values())


@cache
def list_members() -> frozenset[str]:
    """Names of rules, analyses, importers and all else that is registered."""
    return frozenset(name for kind in registry.KINDS for name in registry.list_names(kind))
