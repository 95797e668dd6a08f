"""Which worker runs what: a file's short tests together, each long one alone, the longest first.

pytest-xdist's own way (`--dist loadgroup`) gives out ten thousand tests one by one, looks through
all of them for each, and knows nothing of their lengths: a worker that begins the longest at the
end is waited for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import SupportsIndex

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

Unit = dict[str, bool]  # tests, and whether each is done


class SchedulingByLength(LoadGroupScheduling):
    """Units of one group, of one file's tests that are not long, or of one long test."""

    def __init__(
        self,
        config: pytest.Config,
        log: Producer | None,
        take: Callable[[str], float],
        long_s: float,
    ) -> None:
        """`take` says what a test takes, in seconds; one that takes `long_s` is long."""
        super().__init__(config, log)
        self._take, self._long_s = take, long_s
        self.workqueue = LongestFirst(take)

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        if scope != nodeid or self._take(nodeid) >= self._long_s:
            return scope
        return nodeid.split("::")[0]

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, Listed(collection))

    def _pending_of(self, workload: dict[str, Unit]) -> int:
        for scope in [scope for scope, unit in workload.items() if all(unit.values())]:
            del workload[scope]
        return int(super()._pending_of(workload))


class Listed(list[str]):
    """A list of different texts that knows their places."""

    def __init__(self, items: Sequence[str]) -> None:
        super().__init__(items)
        self._places = {item: place for place, item in enumerate(items)}

    def index(
        self, value: str, start: SupportsIndex = 0, stop: SupportsIndex | None = None, /
    ) -> int:
        return self._places[value]


class LongestFirst(OrderedDict[str, Unit]):
    """Units of which the one that takes longest is given out first."""

    def __init__(self, take: Callable[[str], float]) -> None:
        super().__init__()
        self._take = take
        self._lengths: dict[str, float] = {}

    def popitem(self, last: bool = True) -> tuple[str, Unit]:
        scope = max(self, key=self._measure)
        return scope, self.pop(scope)

    def _measure(self, scope: str) -> float:
        if scope not in self._lengths:
            self._lengths[scope] = sum(map(self._take, self[scope]))
        return self._lengths[scope]
