"""NVIDIA GPUs: every value against what the fake machine was told to answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from record.monitor.machine import FakeClock, play
from sightline.record.monitor.readings import GPU, INSTANCE, PROCESS, Entity
from sightline.record.monitor.rounds import Round
from sightline.record.monitor.sources.nvml import open_source
from support import fake_nvml as fake
from support.fake_nvml.scenario import NO_PERMISSION

MIB = 1 << 20
Watch = Callable[[fake.Scenario, float], list[Round]]


@pytest.fixture
def watch(nvml_library: Path, tmp_path: Path) -> Watch:
    """The rounds of a scenario, one a second."""

    def run(scenario: fake.Scenario, seconds: float) -> list[Round]:
        with fake.use_scenario(scenario, nvml_library, tmp_path) as clock:
            source = open_source()
            rounds = list(play([source], FakeClock(seconds, clock.set)))
            source.close()
            return rounds

    return run


def values(now: Round, gpu: int = 0) -> dict[str, float]:
    return next(r.values for r in now.readings if r.entity == Entity(GPU, gpu))


def test_values_are_what_the_gpu_says(watch: Watch) -> None:
    rounds = watch(fake.Scenario([fake.make_h200()]), 3)
    assert values(rounds[2]) == {
        **values(rounds[2]),
        "power": 650, "instantaneous power": 650, "energy": 1300, "SM clock": 1965,
        "memory clock": 3201, "temperature": 61, "memory used": 61_440 * MIB,
        "memory total": 143_771 * MIB, "memory reserved": 615 * MIB, "GPU utilization": 100,
        "SM active": 92.5, "SM occupancy": 41, "tensor active": 55.5, "DRAM active": 63,
        "FP16 active": 1.5, "PCIe sent": 850 * MIB, "NVLink received": 45_000 * MIB,
        "NVLink total": 89_000 * MIB, "XID": 0,
    }  # fmt: skip
    # True use is of what lies between two rounds: the first one has none, and no zero.
    assert "SM active" not in values(rounds[0])
    # What changes rarely is read each half minute.
    assert values(rounds[0])["PCIe width"] == 16
    assert "PCIe width" not in values(rounds[1])


def test_what_is_refused_has_no_value_and_a_reason(watch: Watch) -> None:
    gpu = fake.make_h200()
    gpu.refuse("PowerUsage")
    gpu.refuse("Temperature", code=NO_PERMISSION)
    for now in watch(fake.Scenario([gpu]), 2):
        (reading,) = now.readings
        assert "power" not in reading.values and "temperature" not in reading.values
        assert reading.missing["power"] == "Not Supported"
        assert reading.missing["temperature"] == "Insufficient Permissions"


def test_a_gpu_that_falls_off_the_bus(watch: Watch) -> None:
    machine = fake.make_eight()
    machine.devices[3].lose(5)
    rounds = watch(machine, 8)
    assert len(values(rounds[4], 3)) > 30
    # Nothing of it but the XID that came last, and the others go on.
    assert values(rounds[5], 3) == {"XID": 79} == values(rounds[7], 3)
    assert all(len(values(rounds[7], gpu)) > 30 for gpu in range(8) if gpu != 3)
    told = [(e.kind, e.entity.device_id) for now in rounds for e in now.events]
    assert told == [("xid", 3), ("device-lost", 3)]
    lost = next(r for r in rounds[7].readings if r.entity.device_id == 3)
    assert lost.missing["*"] == "GPU is lost"


def test_a_gpu_that_comes_back_is_read_again(watch: Watch) -> None:
    gpu = fake.make_h200()
    gpu.failures.append(fake.Failure("*", 15, 5, 20))
    rounds = watch(fake.Scenario([gpu]), 40)
    assert [e.kind for now in rounds for e in now.events] == ["device-lost", "device-back"]
    assert values(rounds[39])["power"] == 650


def test_a_counter_that_is_reset_is_told(watch: Watch) -> None:
    power = fake.steps((0, 650_000.0))
    gpu = fake.make_h200()
    gpu.values["TotalEnergyConsumption"] = fake.accumulate(power, 100, resets=[4])
    gpu.values["FieldValues/83/0"] = gpu.values["TotalEnergyConsumption"]
    rounds = watch(fake.Scenario([gpu]), 8)
    assert [e.kind for now in rounds for e in now.events] == ["counter-reset"]
    assert values(rounds[6])["energy"] == pytest.approx(2 * 650)


def test_each_mig_instance_has_its_own_true_use(watch: Watch) -> None:
    gpu = fake.make_h200()
    fake.make_instance(gpu, 5, 3, 71_680)
    fake.make_instance(gpu, 9, 2, 35_840)
    last = watch(fake.Scenario([gpu]), 3)[2]
    found = {r.entity.source: r.values for r in last.readings if r.entity.kind == INSTANCE}
    assert set(found) == {"MIG 5 (3g.70gb)", "MIG 9 (2g.35gb)"}
    assert found["MIG 5 (3g.70gb)"]["memory total"] == 71_680 * MIB
    assert found["MIG 5 (3g.70gb)"]["SM active"] > 0


def test_processes_come_and_go(watch: Watch) -> None:
    gpu = fake.make_h200()
    gpu.processes.append(fake.Process(4242, 60 << 30, sm=93, until_s=3))
    gpu.processes.append(fake.Process(7, None, sm=1))
    rounds = watch(fake.Scenario([gpu]), 6)
    found = [{r.entity.source: r.values for r in now.readings if r.entity.kind == PROCESS}
             for now in rounds]  # fmt: skip
    assert found[1]["process 4242"]["memory used"] == 60 << 30
    assert "memory used" not in found[1]["process 7"]  # NVML cannot say
    assert "process 4242" not in found[5]
