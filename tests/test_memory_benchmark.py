"""The input of benchmarks/memory_snapshot.py: copies of a history that leave nothing behind."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from support.places import ROOT

SOURCE = ROOT / "benchmarks" / "memory_snapshot.py"
# What torch 2.0 writes has no times. The first free is of a block from before the history.
EVENTS: list[dict[str, Any]] = [
    {"action": "free_completed", "addr": 1, "size": 8},
    {"action": "segment_alloc", "addr": 2, "size": 64},
    {"action": "alloc", "addr": 2, "size": 4, "frames": []},
    {"action": "alloc", "addr": 3, "size": 5},
    {"action": "free_requested", "addr": 3, "size": 5},
    {"action": "free_completed", "addr": 3, "size": 5},
]


@pytest.fixture(name="replicate")
def load_replicate() -> Any:
    spec = importlib.util.spec_from_file_location("memory_snapshot", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.replicate


def sum_live(events: list[dict[str, Any]]) -> int:
    change = {"alloc": 1, "free_completed": -1}
    return sum(change.get(event["action"], 0) * event["size"] for event in events)


def test_a_copy_frees_what_it_allocates(replicate: Any) -> None:
    [events] = replicate({"device_traces": [EVENTS]}, 3)["device_traces"]
    # The first as it is and the frees of what it leaves; then without what only it can do.
    assert len(events) == (6 + 2) + (4 + 2) + 4
    assert sum_live(events) == sum_live(EVENTS)
    assert not any("time_us" in event for event in events)


def test_times_go_on_from_copy_to_copy(replicate: Any) -> None:
    timed = [{**event, "time_us": 10 * place} for place, event in enumerate(EVENTS)]
    [events] = replicate({"device_traces": [timed]}, 2)["device_traces"]
    times = [event["time_us"] for event in events]
    assert times == sorted(times)
    assert times[-1] == 50 + 1050
