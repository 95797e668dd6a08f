"""What is around a run, on a fake NVML and by the machine's own counters."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from experiment.noise import make_outcome
from sightline.experiment.measure import Outcome
from sightline.experiment.surroundings import Surroundings
from support import fake_nvml as fake


@pytest.mark.timing
def test_clocks_and_limits_of_gpus_while_a_run_lasts(nvml_library: Path, tmp_path: Path) -> None:
    """Of the second GPU, which its power cap holds back."""
    first, second = fake.make_h200(0), fake.make_h200(1)
    second.values["CurrentClocksEventReasons"] = 0x4
    machine = fake.Scenario([first, second])
    with fake.use_scenario(machine, nvml_library, tmp_path):
        around = Surroundings(period_s=0.01)
        try:
            outcome, seen = around.watch(_sleep)
        finally:
            around.close()
    assert outcome.value == 3e8
    one, two = seen["gpus"]
    assert (one["sm_mhz"], one["limited_pct"], two["limited_pct"]) == (1965.0, 0.0, 100.0)
    assert one["celsius"] is not None
    assert seen["load"] >= 0


def test_a_machine_without_nvml_says_nothing_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("no driver")

    from sightline.experiment import surroundings
    from sightline.record.nvml.library import Unavailable

    monkeypatch.setattr(surroundings, "Sampler", refuse)
    around = Surroundings()
    _, seen = around.watch(lambda: make_outcome(0.05))
    around.close()
    assert seen["gpus"] == []
    assert seen["others_cpus"] is None, "a run of 50 ms is too short for the kernel's ticks"


def test_cpu_time_of_others_is_without_the_runs_own() -> None:
    """A run that claims more than all CPUs had leaves nothing for others."""
    around = Surroundings()
    try:
        _, seen = around.watch(lambda: Outcome(1e9, 10**9, 10**15, 1, 0, ""))
    finally:
        around.close()
    assert seen["others_cpus"] == 0.0


def _sleep() -> Outcome:
    time.sleep(0.2)
    return make_outcome(0.3)
