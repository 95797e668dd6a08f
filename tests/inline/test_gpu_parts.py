"""NVML, NVTX and capture ranges, on libraries that the tests compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.inline import session
from sightline.nvml import sampling
from sightline.nvml.library import Unavailable
from sightline.nvml.summary import energy
from support import fakes


def run_python(code: str, libraries: Path, **variables: str) -> str:
    env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lib")
    fakes.library(folder, "libnvidia-ml.so.1", fakes.NVML)
    fakes.library(folder, "libnvToolsExt.so.1", fakes.NVTX)
    fakes.library(folder, "libcudart.so.13", fakes.CUDART)
    return folder


MONITOR = """
import json, time, sightline as sl
with sl.gpu_monitor(period_s=0.005) as m:
    time.sleep(0.1)
print(json.dumps(m.summary()))
"""


def test_the_monitor_on_two_scripted_gpus(libraries, tmp_path):
    folder = tmp_path / "r.sightline"
    folder.mkdir()
    plan = json.dumps({"folder": str(folder)})
    said = json.loads(run_python(MONITOR, libraries, **{session.VARIABLE: plan}))
    assert said["available"] is True
    first, second = said["devices"]
    power = first["power [W]"]
    assert (power["min"], power["max"]) == (300.0, 400.0)
    assert power["mean"] == pytest.approx(350, abs=51 / power["samples"])  # by turns
    assert first["SM clock [MHz]"]["mean"] == 1410
    assert first["memory clock [MHz]"]["mean"] == 2619
    assert first["memory used [bytes]"]["max"] == 3 << 30
    # The script adds 5 J at every third reading.
    steps = (power["samples"] // 3) - (1 // 3)
    assert first["energy_j"] == pytest.approx(5.0 * steps, abs=5.0)
    assert first["energy_error_j"] > 0
    assert "energy_j" not in second  # it refuses the counter
    assert second["limited_pct"] == {"power cap": 100.0}
    assert first["limited_pct"] == {}
    # The same samples are in the run.
    counters = sl.open(str(folder)).table("counters")
    own = counters.filter((pl.col("metric") == "power") & (pl.col("device_id") == 0))
    assert own.height == power["samples"]
    assert own.get_column("value").sum() == pytest.approx(power["mean"] * power["samples"])
    assert own.get_column("time_ns").is_sorted()


def test_without_nvml_the_monitor_says_why(monkeypatch):
    def refuse():
        raise Unavailable("NVML does not start: no driver")

    monkeypatch.setattr(sampling, "connect", refuse)
    with sl.gpu_monitor() as m:
        pass
    assert m.summary() == {
        "available": False,
        "reason": "NVML does not start: no driver",
        "devices": [],
    }


def test_energy_has_an_error_bar_of_two_updates():
    ms = 1_000_000
    counter = [(0, 10.0), (50 * ms, 10.0), (100 * ms, 40.0), (150 * ms, 40.0), (200 * ms, 70.0)]
    power = [(0, 300.0), (100 * ms, 300.0), (200 * ms, 300.0)]
    found = energy(counter, power)
    assert found["energy_j"] == 60.0
    # The longest time between two changes is 100 ms: 30 J at 300 W, at both ends.
    assert found["energy_error_j"] == pytest.approx(60.0)
    assert found["energy_by_power_j"] == pytest.approx(300 * 0.2)
    assert abs(found["energy_by_power_j"] - found["energy_j"]) <= found["energy_error_j"]


NVTX = """
import sightline as sl
with sl.annotate("outer"), sl.annotate("inner"):
    with sl.capture():
        pass
"""


def test_annotations_and_captures_reach_the_vendors_libraries(libraries, tmp_path):
    """As under nsys, which sets the variable that says where its injection library is."""
    calls = tmp_path / "calls"
    run_python(NVTX, libraries, CALLS=str(calls), NVTX_INJECTION64_PATH="/any")
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
    run_python(NVTX, libraries, CALLS=str(calls))
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
    synchronize=lambda: told.append("synchronised"))
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
    said = run_python(MEMORY, libraries, **{session.VARIABLE: plan})
    assert said.split() == ["100000", "synchronised", "{'enabled':", "None}", "3"]
    run = sl.open(str(folder))
    events = run.table("memory_events").sort("time_ns")
    assert events.select("action", "address", "bytes", "device_id").rows() == [
        ("alloc", 4096, 512, 0),
        ("free", 4096, 512, 0),
    ]
    first, second = run.table("host_ops").sort("start_ns").get_column("payload").to_list()
    assert json.loads(first) == {
        "synchronised": True,
        "allocated_bytes": 512,
        "reserved_bytes": 2 << 20,
    }
    assert json.loads(second)["synchronised"] is False
    assert run.table("counters").get_column("device_id").unique().to_list() == [1]
