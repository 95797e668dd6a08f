"""NVTX, capture ranges and memory history, on libraries that the tests compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline as sl
from sightline.record.inline import session
from support import fakes


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fakes.make_libraries(tmp_path_factory.mktemp("lib"))


NVTX = """
import sightline as sl
with sl.annotate("outer"), sl.annotate("inner"):
    with sl.capture():
        pass
"""


def test_annotations_and_captures_reach_the_vendors_libraries(libraries, tmp_path):
    """As under nsys, which sets the variable that says where its injection library is."""
    calls = tmp_path / "calls"
    fakes.run_python(NVTX, libraries, CALLS=str(calls), NVTX_INJECTION64_PATH="/any")
    assert [line.strip() for line in calls.read_text().splitlines()] == [
        "push outer",
        "push inner",
        "start",
        "push capture",
        "pop",
        "stop",
        "pop",
        "pop",
    ]


def test_without_a_vendors_profiler_they_are_not_called(libraries, tmp_path):
    calls = tmp_path / "calls"
    fakes.run_python(NVTX, libraries, CALLS=str(calls))
    assert not calls.exists()


MEMORY = """
import sys, types, sightline as sl
class Memory:
    def _record_memory_history(self, **options): told.append(options)
    def _snapshot(self):
        return {"device_traces": [[
            {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1000, "frames":
             [{"filename": "a.py", "line": 3, "name": "f"}]},
            {"action": "free_completed", "addr": 4096, "size": 512, "stream": 0, "time_us": 1500},
        ]]}
told = []
cuda = types.SimpleNamespace(is_initialized=lambda: True, memory=Memory(),
    memory_allocated=lambda: 512, memory_reserved=lambda: 2 << 20, current_device=lambda: 1,
    synchronize=lambda: told.append("synchronized"))
torch = types.ModuleType("torch"); torch.cuda = cuda
sys.modules["torch"] = torch
with sl.memory_history("block"):
    sl.checkpoint("inside", synchronize=True)
    sl.checkpoint("later")
print(told[0]["max_entries"], told[1], told[-1], len(told))
"""


def test_memory_history_and_checkpoints_of_a_gpu(libraries, tmp_path):
    """torch.cuda is scripted here: this machine's torch has none."""
    folder = tmp_path / "r.sightline"
    folder.mkdir()
    plan = json.dumps({"folder": str(folder)})
    said = fakes.run_python(MEMORY, libraries, **{session.VARIABLE: plan})
    assert said.split() == ["100000", "synchronized", "{'enabled':", "None}", "3"]
    run = sl.open(str(folder))
    events = run.table("memory_events").sort("time_ns")
    assert events.select("action", "address", "bytes", "device_id").rows() == [
        ("alloc", 4096, 512, 0),
        ("free", 4096, 512, 0),
    ]
    first, second = run.table("host_ops").sort("start_ns").get_column("payload").to_list()
    assert json.loads(first) == {
        "synchronized": True,
        "allocated_bytes": 512,
        "reserved_bytes": 2 << 20,
    }
    assert json.loads(second)["synchronized"] is False
    assert run.table("counters").get_column("device_id").unique().to_list() == [1]
