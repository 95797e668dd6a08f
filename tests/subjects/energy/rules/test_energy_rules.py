"""Rules about energy on histories of known truth: what each says in joules, and its silence.

Expected joules are written out: seconds times watts of the phases. The counter's ends may be wrong
by a reading (10 s) each, so figures agree within that.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from support.histories import GIB, Phase, Values, rest, train, write_history
from support.rules import answers, assert_silent

HOUR = 3600
RULES = ("idle-burn", "busy-but-idle", "power-bound", "race-to-idle", "cap-advice")
SEEMING = {**train(power=150.0), "SM active": 2.0, "tensor active": 1.0}


def open_history(folder: Path, *phases: tuple[int, Values], **options: object) -> Run:
    """One GPU in phases of (seconds, what it shows)."""
    told = [Phase(seconds, {0: values}) for seconds, values in phases]
    return sightline.open(str(write_history(folder / "h", told, **options)))  # type: ignore[arg-type]


def find(run: Run, rule: str) -> Finding:
    (found,) = answers(run, rule)
    assert not found.abstained, found.reason
    whole = run.ask("energy").get_column("energy_j").sum()
    assert (found.gain.amount if found.gain else 0) <= found.cost.amount <= whole
    assert found.cost_pct == pytest.approx(100 * found.cost.amount / whole)
    return found


def test_idle_hours_are_told_with_what_ending_the_process_saves(tmp_path: Path) -> None:
    phases = [(HOUR, train()), (2 * HOUR, rest(120.0, held=30 * GIB)), (HOUR, rest(75.0))]
    run = open_history(tmp_path, *phases, (HOUR, train()))
    found = find(run, "idle-burn")
    idle = 2 * HOUR * 120 + HOUR * 75
    assert found.cost.amount == pytest.approx(idle, abs=2 * 600 * 10)
    assert found.gain.amount == found.cost.amount
    assert "GPU 0 did nothing for 3.0 hours" in found.summary
    assert "0.3 kWh" in found.summary
    lines = "\n".join(found.evidence)
    parked = re.search(r"idles at (\d+) W: ending the processes alone saves ([\d.]+) kJ", lines)
    assert parked is not None
    assert float(parked[1]) == pytest.approx(75, abs=1)
    truth = 2 * HOUR * 45 / 1e3
    assert 0.95 * truth <= float(parked[2]) <= truth
    low = sum(row["low_j"] for row in found.rows)
    assert low <= idle <= sum(row["high_j"] for row in found.rows)
    assert next(f.rule for f in sightline.findings(run) if not f.abstained) == "idle-burn"


def test_short_pauses_are_no_idle_burn(tmp_path: Path) -> None:
    run = open_history(tmp_path, *[(300, train()), (590, rest(100.0))] * 4)
    assert_silent(run, "idle-burn")


def test_without_true_use_nvidia_smis_figure_tells_idle_time(tmp_path: Path) -> None:
    phases = ((HOUR, train()), (HOUR, rest(100.0)))
    run = open_history(tmp_path, *phases, without=("SM active", "memory used"))
    assert find(run, "idle-burn").cost.amount == pytest.approx(HOUR * 100, abs=12_000)


def test_a_busy_gpu_without_work_gains_its_idle_power_only(tmp_path: Path) -> None:
    phases = ((HOUR, SEEMING), (1200, rest(80.0)), (1800, train()))
    found = find(open_history(tmp_path, *phases), "busy-but-idle")
    assert found.cost.amount == pytest.approx(HOUR * 150, abs=12_000)
    truth = HOUR * 0.98 * 80
    assert 0.97 * truth <= (found.gain.amount if found.gain else 0) <= truth
    assert "nvidia-smi shows 100 %" in found.summary and "2.0 %" in found.summary


def test_a_busy_gpu_without_work_gains_nothing_known_where_it_never_idles(tmp_path: Path) -> None:
    found = find(open_history(tmp_path, (HOUR, SEEMING), (1800, train())), "busy-but-idle")
    assert found.gain is None and found.is_remark


def test_time_at_the_power_limit_costs_and_gains_nothing(tmp_path: Path) -> None:
    capped = train(700.0, 1400.0, clock_event_reasons=4.0, power_limit=700.0)
    free = train(500.0, 1980.0, power_limit=700.0)
    found = find(open_history(tmp_path, (HOUR, capped), (HOUR, free)), "power-bound")
    assert found.cost.amount == pytest.approx(HOUR * 700, abs=14_000)
    assert found.gain is None and found.is_remark
    assert "1.0 hours" in found.summary or "60 minutes" in found.summary
    assert "1400 MHz on average" in found.evidence[0] and "1980 MHz" in found.evidence[0]


def test_the_drivers_counter_tells_the_limit_where_its_reasons_are_not_read(tmp_path: Path) -> None:
    phases = []
    lowered = 0.0
    for _ in range(180):  # half of each ten seconds
        lowered += 5e9
        phases.append((10, train(600.0, clocks_lowered_by_power=lowered)))
    run = open_history(tmp_path, *phases, without=("clock event reasons",))
    assert find(run, "power-bound").cost.amount == pytest.approx(1800 * 600 / 2, rel=0.03)


def test_two_limits_with_the_same_work_make_advice(tmp_path: Path) -> None:
    """Half of the power at three quarters of the clock: two thirds of the energy for each cycle."""
    high = train(600.0, 1800.0, power_limit=700.0)
    low = train(300.0, 1350.0, power_limit=400.0)
    low["DRAM active"] = high["DRAM active"] * 0.75
    found = find(open_history(tmp_path, (HOUR, high), (HOUR, low)), "cap-advice")
    assert found.cost.amount == pytest.approx(HOUR * 600, abs=12_000)
    truth = HOUR * 600 * (1 - (300 / 1350) / (600 / 1800))
    assert truth * 0.95 <= found.gain.amount <= truth
    assert "nvidia-smi -pl 400" in (found.fix or "")
    assert "33 % longer" in found.summary
    assert found.confidence == "medium"


def test_other_work_at_another_limit_makes_no_advice(tmp_path: Path) -> None:
    high = train(600.0, 1800.0, power_limit=700.0)
    low = train(300.0, 1350.0, power_limit=400.0)  # more memory traffic for each cycle
    assert_silent(open_history(tmp_path, (HOUR, high), (HOUR, low)), "cap-advice")


@pytest.mark.parametrize("metric", ["power limit", "tensor active", "SM clock"])
def test_what_was_not_recorded_is_not_judged(tmp_path: Path, metric: str) -> None:
    high, low = train(600.0, power_limit=700.0), train(300.0, 1350.0, power_limit=400.0)
    run = open_history(tmp_path, (HOUR, high), (HOUR, low), without=(metric,))
    assert_silent(run, "cap-advice")


def test_a_slower_clock_that_fits_into_the_idle_time_is_advised(tmp_path: Path) -> None:
    fast = train(600.0, 1800.0)
    slow = train(300.0, 1350.0)
    slow["DRAM active"] = fast["DRAM active"] * 0.75
    phases = [(600, fast), (300, rest(80.0))] * 4 + [(1200, slow)]
    found = find(open_history(tmp_path, *phases), "race-to-idle")
    truth = 2400 * 600 * (1 - (300 / 1350) / (600 / 1800))
    # Each of the four bursts may be wrong by a reading at both ends.
    assert truth * 0.8 <= found.gain.amount <= truth
    assert "nvidia-smi -lgc 1400" in (found.fix or "")  # to the nearest 100 MHz


def test_without_idle_time_a_slower_clock_is_not_advised(tmp_path: Path) -> None:
    fast, slow = train(600.0, 1800.0), train(300.0, 1350.0)
    slow["DRAM active"] = fast["DRAM active"] * 0.75
    assert_silent(open_history(tmp_path, (HOUR, fast), (HOUR, slow)), "race-to-idle")


@pytest.mark.parametrize("rule", RULES)
def test_a_gpu_that_trains_is_healthy(tmp_path: Path, rule: str) -> None:
    run = open_history(tmp_path, (HOUR, train(power_limit=700.0)), (60, rest()), (HOUR, train()))
    assert_silent(run, rule)


def test_gaps_in_a_history_are_neither_idle_nor_busy(tmp_path: Path) -> None:
    phases = [Phase(600, {0: train(), 1: rest()}), Phase(HOUR, {0: train()})]
    phases += [Phase(300, {0: train(), 1: rest()})]
    run = sightline.open(str(write_history(tmp_path / "h", phases)))
    states = run.ask("energy_of_states").filter(device_id=1)
    # The hour in which GPU 1 was not read is in none of its stretches.
    assert states.get_column("duration_ns").sum() == (590 + 290) * 10**9
