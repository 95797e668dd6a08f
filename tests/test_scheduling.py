"""Units of work for the workers of pytest-xdist, in the order in which they are given out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist")

from support.scheduling import Listed, LongestFirst, SchedulingByLength

TAKES = {"b.py::long": 0.5, "b.py::other": 0.2}
TESTS = ["a.py::x", "a.py::y[1]", "b.py::z", "b.py::other", "b.py::long", "c.py::g@own"]


def take(nodeid: str) -> float:
    return TAKES.get(nodeid, 0.02)


class Node(SimpleNamespace):
    """A worker that keeps what it is told."""

    __hash__ = object.__hash__

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += [[TESTS[place] for place in places]]

    def shutdown(self) -> None:
        self.shutting_down = True


def make_scheduling(workers: int) -> tuple[SchedulingByLength, list[Any]]:
    option = SimpleNamespace(loadscopereorder=True, tx=["popen"] * workers)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduling = SchedulingByLength(config, None, take, 0.1)
    nodes: list[Any] = [
        Node(given=[], shutting_down=False, gateway=SimpleNamespace(id=number))
        for number in range(workers)
    ]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, TESTS)
    return scheduling, nodes


def test_the_longest_first_and_short_ones_of_a_file_together() -> None:
    scheduling, (node,) = make_scheduling(1)
    scheduling.schedule()
    for _ in range(3):
        for unit in list(node.given):
            for nodeid in unit:
                if nodeid in str(scheduling.assigned_work[node]):
                    scheduling.mark_test_complete(node, TESTS.index(nodeid))
    assert node.given == [
        ["b.py::long"],
        ["b.py::other"],
        ["a.py::x", "a.py::y[1]"],
        ["b.py::z"],
        ["c.py::g@own"],
    ]
    assert node.shutting_down
    assert scheduling.tests_finished


def test_what_is_done_is_forgotten() -> None:
    scheduling, (one, two) = make_scheduling(2)
    scheduling.schedule()
    assert one.given[0] == ["b.py::long"]
    scheduling.mark_test_complete(one, TESTS.index("b.py::long"))
    assert "b.py::long" not in scheduling.assigned_work[one]
    assert sum(map(len, one.given + two.given)) <= len(TESTS)


def test_places_in_a_list() -> None:
    assert [Listed(TESTS).index(nodeid) for nodeid in TESTS] == list(range(len(TESTS)))
    assert Listed(TESTS) == TESTS


def test_units_of_one_length_come_in_their_order() -> None:
    queue = LongestFirst(take)
    for name in ("x", "y", "b.py::long"):
        queue[name] = {name: False}
    assert [queue.popitem(last=False)[0] for _ in range(3)] == ["b.py::long", "x", "y"]
