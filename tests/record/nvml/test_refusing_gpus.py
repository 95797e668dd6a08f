"""Samples of GPUs that refuse, fail for a while, fall off the bus or are reset: none is a zero."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl
import pynvml
import pytest

import sightline as sl
from sightline.record.collect import conditions
from sightline.record.collect.machine import examine_machine, list_recordable
from sightline.record.nvml import sampling
from sightline.record.nvml.sampling import Sampler
from sightline.record.nvml.summary import describe_unread, summarize_samples
from sightline.subjects.energy.analyses.energy import MEASURED
from support import fake_nvml as fake
from support.fake_nvml.scenario import NO_PERMISSION


def sample(
    scenario: fake.Scenario, library: Path, folder: Path, moments: list[float]
) -> tuple[Sampler, list[dict]]:
    """The GPUs read once at each moment of the scenario, and what that comes to."""
    with fake.use_scenario(scenario, library, folder) as clock:
        clock.set(moments[0])
        sampler = Sampler(lambda _: None)
        for moment in moments:
            clock.set(moment)
            sampler.read()
        return sampler, summarize_samples(sampler)


def values(sampler: Sampler, device: int, metric: str) -> list[float]:
    return [value for _, value in sampler.devices[device].readings.get(metric, [])]


def test_eight_gpus_are_read_as_the_scenario_has_them(nvml_library, tmp_path):
    scenario = fake.make_eight()
    heat = fake.ramp((0, 30), (10, 70))
    scenario.devices[6].values["Temperature/0"] = heat
    sampler, summary = sample(scenario, nvml_library, tmp_path, [0, 4, 8])
    assert [row["power [W]"]["mean"] for row in summary] == [600 + 10 * i for i in range(8)]
    assert values(sampler, 6, "temperature [C]") == [heat.at(t) for t in (0, 4, 8)]
    assert [row["energy_j"] for row in summary] == [8 * (600 + 10 * i) for i in range(8)]
    assert not any("not_read" in row for row in summary)


def test_a_gpu_that_falls_off_the_bus_has_readings_until_then(nvml_library, tmp_path):
    scenario = fake.make_eight()
    scenario.devices[3].lose(5)
    sampler, summary = sample(scenario, nvml_library, tmp_path, [0, 2, 4, 6, 8])
    assert values(sampler, 3, "power [W]") == [630.0] * 3
    assert values(sampler, 4, "power [W]") == [640.0] * 5
    assert summary[3]["not_read"] == {"all": "GPU is lost"}
    assert summary[3]["energy_j"] == 630 * 4  # until it was last read
    assert "not_read" not in summary[4]
    ((severity, text),) = describe_unread(summary)
    assert severity == "warning"
    assert text.startswith("GPU 3 was not read from 0.")
    assert text.endswith(" s after the first reading on: GPU is lost")


def test_what_a_gpu_cannot_say_is_named_and_is_no_zero(nvml_library, tmp_path):
    device = fake.make_h200()
    device.refuse("CurrentClocksEventReasons", "TotalEnergyConsumption")
    device.refuse("ClockInfo/1", code=NO_PERMISSION)
    sampler, (row,) = sample(fake.Scenario([device]), nvml_library, tmp_path, [0, 1])
    assert row["not_read"] == {
        "energy [J]": "Not Supported",
        "SM clock [MHz]": "Insufficient Permissions",
        "clock event reasons [bits]": "Not Supported",
    }
    assert not {"energy_j", "limited_pct", "SM clock [MHz]"} & set(row)
    assert values(sampler, 0, "SM clock [MHz]") == []


def test_a_reading_that_fails_for_a_while_leaves_a_gap_and_comes_back(nvml_library, tmp_path):
    device = fake.make_h200()
    device.failures.append(fake.Failure("PowerUsage", 999, 2, 4))
    sampler, (row,) = sample(fake.Scenario([device]), nvml_library, tmp_path, [0, 1, 2, 3, 4, 5])
    assert values(sampler, 0, "power [W]") == [650.0] * 4
    assert len(values(sampler, 0, "temperature [C]")) == 6
    assert row["not_read"] == {"power [W]": "Unknown Error (2 times)"}


def test_a_counter_that_was_reset_gives_no_energy(nvml_library, tmp_path):
    device = fake.make_h200()
    device.values["TotalEnergyConsumption"] = fake.accumulate(
        fake.steps((0, 650_000.0)), 100, resets=[5]
    )
    _, (row,) = sample(fake.Scenario([device]), nvml_library, tmp_path, [1, 2, 4, 6, 8])
    assert "energy_j" not in row
    assert "energy_error_j" not in row
    assert row["not_read"] == {"energy_j": "the counter was reset"}


def test_a_gpu_that_cannot_be_reached_does_not_keep_others_from_being_read(nvml_library, tmp_path):
    scenario = fake.make_eight()
    scenario.devices[2].refuse("HandleByIndex", code=NO_PERMISSION)
    sampler, summary = sample(scenario, nvml_library, tmp_path, [0, 1])
    assert summary[2]["not_read"] == {"all": "Insufficient Permissions"}
    assert values(sampler, 2, "power [W]") == []
    assert values(sampler, 7, "power [W]") == [670.0, 670.0]


def test_reasons_of_low_clocks_come_from_drivers_that_have_the_old_name_only(
    nvml_library, tmp_path, monkeypatch
):
    def missing(handle: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    device = fake.make_h200()
    device.values["CurrentClocksEventReasons"] = 0x4
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", missing)
    _, (row,) = sample(fake.Scenario([device]), nvml_library, tmp_path, [0, 1])
    assert row["limited_pct"] == {"power cap": 100.0}


def test_the_conditions_of_a_run_name_the_gpu_that_cannot_be_reached(nvml_library, tmp_path):
    scenario = fake.make_eight()
    scenario.devices[5].lose(0)
    with fake.use_scenario(scenario, nvml_library, tmp_path):
        gpus = conditions.list_gpus()
    assert [gpu["power_cap_w"] for gpu in gpus] == [700.0] * 5 + [None] + [700.0] * 2
    (note,) = conditions.list_notes({}, gpus)
    assert "GPU 5: NVML cannot reach it (GPU is lost)" in note["text"]


def test_a_machine_without_nvidia_smi_shows_what_nvml_sees(nvml_library, tmp_path):
    scenario = fake.make_eight()
    scenario.devices[5].lose(0)
    with fake.use_scenario(scenario, nvml_library, tmp_path):
        facts = examine_machine(lambda _: None, tmp_path)
    assert facts["gpus"] == ["NVIDIA H200, 143771 MiB, 575.57.08"] * 7
    assert facts["unreachable_gpus"] == ["GPU 5 (GPU is lost)"]
    assert facts["nvidia_driver"] == "575.57.08"
    way = next(w for w in list_recordable(facts) if "NVML" in w.what)
    assert way.possible


@pytest.mark.parametrize(
    ("code", "says"), [(9, "Driver Not Loaded"), (4, "Insufficient Permissions")]
)
def test_an_nvml_that_does_not_start_says_why(nvml_library, tmp_path, code, says):
    with fake.use_scenario(fake.Scenario([], init_code=code), nvml_library, tmp_path):
        facts = examine_machine(lambda _: None, tmp_path)
        with sl.gpu_monitor() as monitor:
            pass
    way = next(w for w in list_recordable(facts) if "NVML" in w.what)
    assert (way.possible, way.why) == (False, f"NVML does not start: {says}")
    assert monitor.summary()["reason"] == f"NVML does not start: {says}"


# A program that lets the GPUs' time pass as its own does: it begins when the sampler is ready.
DRIVE = """
import struct, sys, time
began = time.monotonic_ns()
with open(sys.argv[1], "r+b", buffering=0) as clock:
    while (passed := time.monotonic_ns() - began) < 1_600_000_000:
        clock.seek(0)
        clock.write(struct.pack("<q", passed))
        time.sleep(0.002)
"""


@pytest.mark.timing
def test_a_run_for_energy_of_eight_gpus_of_which_one_is_lost(nvml_library, tmp_path):
    scenario = fake.make_eight()
    scenario.devices[3].lose(0.8)
    scenario.devices[6].refuse("TotalEnergyConsumption")
    scenario.devices[7].refuse("HandleByIndex", code=NO_PERMISSION)
    folder, clock = tmp_path / "r.sightline", fake.Clock(tmp_path / "clock")
    words = [sys.executable, "-m", "sightline", "run", "--for", "energy", "-o", str(folder), "--"]
    words += [sys.executable, "-c", DRIVE, str(clock.path)]
    done = fake.run_with(scenario, nvml_library, words, tmp_path, clock)
    assert done.returncode == 0, done.stderr
    run = sl.open(str(folder))
    counters = run.table("counters").filter(pl.col("metric") == "power")
    seen = counters.group_by("device_id").agg(pl.col("value").unique(), pl.len()).sort("device_id")
    assert seen.get_column("value").to_list() == [[600.0 + 10 * i] for i in range(7)]
    count = dict(seen.select("device_id", "len").iter_rows())
    assert 0 < count[3] < count[2]
    texts = run.table("quality").filter(kind="gpu_not_read").get_column("text").to_list()
    assert len(texts) == 3
    assert any(t.startswith("GPU 3 was not read from ") and "GPU is lost" in t for t in texts)
    assert "GPU 7 could not be reached (Insufficient Permissions): it was not read" in texts
    assert "GPU 6: NVML did not give energy [J] (Not Supported)" in texts
    told = run.table("counters").filter(pl.col("metric") == "energy")
    risen = told.group_by("device_id").agg(pl.col("value").max() - pl.col("value").min())
    rise = dict(risen.iter_rows())
    energy = run.ask("energy").filter(pl.col("part") == MEASURED, pl.col("device_id") != 3)
    assert energy.get_column("device_id").to_list() == [0, 1, 2, 4, 5, 6]
    for device, method, joules, low, high, window in energy.select(
        "device_id", "method", "energy_j", "low_j", "high_j", "duration_ns"
    ).iter_rows():
        assert low - 1e-6 <= joules <= high + 1e-6
        if device == 6:  # no counter, and a power that does not change
            assert (method, joules) == ("power", pytest.approx(660 * window / 1e9))
        else:
            assert method == "counter"
            assert 0 < joules <= rise[device]


@pytest.mark.timing
def test_a_driver_that_hangs_does_not_keep_the_sampler_from_ending(
    nvml_library, tmp_path, monkeypatch
):
    monkeypatch.setattr(sampling, "END_S", 0.1)
    devices = [fake.make_h200(0), fake.make_h200(1)]
    devices[1].delays.append(fake.Delay("PowerUsage", 2, from_s=1))
    with fake.use_scenario(fake.Scenario(devices), nvml_library, tmp_path) as clock:
        sampler = Sampler(lambda _: None, period_s=0.001).start()
        clock.set(1)
        time.sleep(0.05)
        before = time.monotonic()
        sampler.stop()
        took = time.monotonic() - before
        held, hanging = summarize_samples(sampler)
        sampler.wait(10)  # before the library under this process is taken away
    assert took < 1.5
    assert hanging["not_read"] == {"all": "NVML did not answer for 0.1 s"}
    assert held["not_read"] == {"all": "GPU 1: NVML did not answer for 0.1 s"}
    assert (held["power [W]"]["mean"], hanging["power [W]"]["mean"]) == (650, 650)
    assert [severity for severity, _ in describe_unread([held, hanging])] == ["warning"] * 2
