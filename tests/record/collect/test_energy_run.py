"""`sightline run --for energy` of a program without a GPU's work, on a fake NVML, to its report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline
from support import fake_nvml as fake

pytestmark = pytest.mark.timing

PROGRAM = """
import time, sightline as sl
for _ in range(4):
    with sl.annotate("wait"):
        time.sleep(0.9)
    sl.step()
"""


def test_a_run_for_energy_has_joules_bounds_idle_power_and_the_thermal_state(
    nvml_library: Path, tmp_path: Path
) -> None:
    device = fake.make_h200(0, fake.steps((0, 80.0), (2.0, 500.0)))
    device.values |= {
        "UtilizationRates.gpu": fake.steps((0, 0), (2.0, 100)),
        "Temperature/0": fake.ramp((0, 40.0), (60, 640.0)),  # ten degrees a second
    }
    command = [sys.executable, "-m", "sightline.doors.cli.main", "run", "--for", "energy", "-o"]
    command += [str(tmp_path / "r"), "--", sys.executable, "-c", PROGRAM]
    done = fake.run_with(fake.Scenario([device]), nvml_library, command, tmp_path)
    assert done.returncode == 0, done.stderr
    run = sightline.open(str(tmp_path / "r.sightline"))
    (row,) = run.ask("device_use").to_dicts()
    counted = run.table("counters").filter(pl.col("metric") == "energy").get_column("value")
    truth = float(counted.max() - counted.min())  # type: ignore[operator]
    # A machine that is busy otherwise reads rarely: then the meter covers less of the run.
    assert truth * 0.5 < row["energy_j"] <= truth
    assert row["low_j"] <= row["energy_j"] <= row["high_j"]
    assert row["idle_power_w"] == pytest.approx(80, rel=0.3)
    assert row["warming_c_per_min"] == pytest.approx(600, rel=0.5)
    ranges = {r["name"]: r for r in run.ask("energy_of_ranges").to_dicts()}
    wait = ranges["wait"]
    assert wait["instances"] == 4 and wait["measured"] >= 1
    # Each range has edges of its own: their upper bounds together may be above the run's.
    assert wait["low_j"] <= wait["energy_j"] <= wait["high_j"]
    assert wait["low_j"] <= row["high_j"]
    shown = done.stderr
    assert "GPU       smi" in shown and "still warming by" in shown
    assert "idle " in shown
    data = json.loads(json.dumps(run.report()))
    assert [r["kind"] for r in data["limits"]].count("thermal_state") == 1
