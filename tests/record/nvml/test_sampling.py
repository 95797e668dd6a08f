"""Samples of NVML, on the fake one."""

from __future__ import annotations

import json
import sys

import polars as pl
import pytest

import sightline as sl
from sightline.record.inline import session
from sightline.record.nvml import sampling
from sightline.record.nvml.library import Unavailable
from support import fake_nvml as fake
from support.fake_nvml.machines import MIB

# The GPUs' time goes on in the middle: power and energy of what was before and after are known.
MONITOR = """
import json, struct, sys, time, sightline as sl
def go_to(seconds):
    with open(sys.argv[1], "r+b", buffering=0) as clock:
        clock.write(struct.pack("<q", seconds * 10**9))
with sl.gpu_monitor(period_s=0.005) as m:
    time.sleep(0.05)
    go_to(10)
    time.sleep(0.05)
print(json.dumps(m.summary()))
"""


@pytest.mark.timing
def test_the_monitor_on_two_gpus(nvml_library, tmp_path):
    first, second = fake.make_h200(0, fake.steps((0, 300.0), (5, 400.0))), fake.make_h200(1)
    second.refuse("TotalEnergyConsumption")
    second.values["CurrentClocksEventReasons"] = 0x4
    folder, clock = tmp_path / "r.sightline", fake.Clock(tmp_path / "clock")
    folder.mkdir()
    plan = {session.VARIABLE: json.dumps({"folder": str(folder)})}
    program = [sys.executable, "-c", MONITOR, str(clock.path)]
    machine = fake.Scenario([first, second])
    done = fake.run_with(machine, nvml_library, program, tmp_path, clock, **plan)
    said = json.loads(done.stdout)
    assert said["available"] is True
    one, two = said["devices"]
    power = one["power [W]"]
    assert (power["min"], power["max"]) == (300.0, 400.0)
    assert one["SM clock [MHz]"]["mean"] == 1965
    assert one["memory clock [MHz]"]["mean"] == 3201
    # What the driver keeps for itself counts as used, as in nvmlDeviceGetMemoryInfo.
    assert one["memory used [bytes]"]["max"] == (61_440 + 615) * MIB
    assert one["energy_j"] == 300 * 5 + 400 * 5
    assert one["energy_error_j"] > 0
    assert "energy_j" not in two  # it refuses the counter
    assert two["limited_pct"] == {"power cap": 100.0}
    assert one["limited_pct"] == {}
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
