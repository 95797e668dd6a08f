"""Samples of NVML, on a library that the test compiles."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.inline import session
from sightline.nvml import sampling
from sightline.nvml.library import Unavailable
from support import fakes


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fakes.make_libraries(tmp_path_factory.mktemp("lib"))


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
    said = json.loads(fakes.run_python(MONITOR, libraries, **{session.VARIABLE: plan}))
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

    monkeypatch.setattr(sampling, "connect_nvml", refuse)
    with sl.gpu_monitor() as m:
        pass
    assert m.summary() == {
        "available": False,
        "reason": "NVML does not start: no driver",
        "devices": [],
    }


NVTX = """
import sightline as sl
with sl.annotate("outer"), sl.annotate("inner"):
    with sl.capture():
        pass
"""
