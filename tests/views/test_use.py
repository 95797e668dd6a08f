"""The first screen of a monitor's recording: a table of GPUs, then what happened to them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.answer.summary import answer_run
from sightline.core.model.history_folder import list_sealed
from sightline.core.model.history_tables import thin_rows
from sightline.record.monitor.readings import GPU, HOST, Entity, Event
from sightline.views.terminal.screen import render_screen
from support.histories import EPOCH, SECOND, Phase, rest, train, write_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPU 0 trains, half of the time at the power limit; GPU 1 idles; the CPU draws 200 W."""
    free = {**train(600.0), "temperature": 50.0}
    capped = {**train(600.0, 1500.0), "clock event reasons": 4.0, "temperature": 62.0}
    cpu = {"power": 200.0}
    events = [
        Event(EPOCH + 95 * SECOND, "xid", Entity(GPU, 1), "XID 79: GPU has fallen off the bus"),
        Event(EPOCH + 99 * SECOND, "gap", Entity(HOST), "nothing was read for 20.0 s"),
        *[
            Event(EPOCH + n * SECOND, "policy-violated", Entity(GPU, 0), "hot: 90 C")
            for n in (5, 500)
        ],
    ]
    phases = [
        Phase(600, {0: free, 1: rest(75.0), -1: cpu}),
        Phase(600, {0: capped, 1: rest(75.0), -1: cpu}),
    ]
    return write_history(tmp_path_factory.mktemp("use") / "h", phases, events=events)


def test_a_row_for_each_gpu_has_what_was_written(history: Path) -> None:
    run = sightline.open(str(history))
    first, second = run.ask("device_use").to_dicts()
    assert (first["utilization_pct"], first["sm_active_pct"]) == (100, 90)
    assert (first["pipe"], first["pipe_pct"], first["dram_active_pct"]) == ("tensor pipe", 50, 40)
    assert first["power_w"] == pytest.approx(600)
    assert first["energy_j"] == pytest.approx(600 * first["measured_ns"] / 1e9)
    assert first["low_j"] <= first["energy_j"] <= first["high_j"]
    # The first sample stands for no time: 59 + 60 of ten seconds are known.
    assert first["power_limited_pct"] == pytest.approx(100 * 60 / 119)
    assert (first["temperature_start_c"], first["temperature_end_c"]) == (50, 62)
    assert (second["idle_pct"], second["power_limited_pct"]) == (100, 0)
    assert second["idle_power_w"] == pytest.approx(75)
    assert second["temperature_end_c"] is None


def test_the_screen_shows_gpus_first_then_what_happened(history: Path) -> None:
    data = answer_run(sightline.open(str(history)))
    lines = render_screen(data).plain.splitlines()
    assert max(map(len, lines)) <= 80
    head = next(n for n, line in enumerate(lines) if line.startswith("GPU "))
    assert lines[head + 1].split()[:3] == ["0", "100", "%"]
    assert "tensor 50 %" in lines[head + 1] and "600 W" in lines[head + 1]
    assert lines[head + 1].endswith("power 50 %")
    happened = lines[lines.index("What happened (UTC)") + 1 :]
    assert "GPU 0  hot: 90 C (2 times)" in happened[0]
    assert "GPU 1  XID 79: GPU has fallen off the bus" in happened[1]
    assert "host   nothing was read" in happened[2]
    # The GPUs' counters stand in the table; the host's have a list of their own.
    assert not any("power, GPU" in line for line in lines)
    assert any(line.startswith("power, package-0") for line in lines)


def test_events_are_rows_of_a_table(history: Path) -> None:
    rows = sightline.open(str(history)).table("device_events")
    assert rows.get_column("event").to_list() == [
        "policy-violated",
        "xid",
        "gap",
        "policy-violated",
    ]
    assert rows.get_column("device_id").to_list() == [0, 1, None, 0]
    assert rows.get_column("time_ns").is_sorted()


@pytest.mark.parametrize(("slope", "noted"), [(3.0, True), (0.1, False), (-3.0, True)])
def test_a_gpu_that_is_still_warming_is_noted(tmp_path: Path, slope: float, noted: bool) -> None:
    phases = [Phase(10, {0: {**train(), "temperature": 60 + slope * n / 6}}) for n in range(60)]
    data = answer_run(sightline.open(str(write_history(tmp_path / "h", phases))))
    said = [row["text"] for row in data.limits if row["kind"] == "thermal_state"]
    assert len(said) == noted
    if noted:
        assert ("warming by 3.0 C" if slope > 0 else "cooling by 3.0 C") in said[0]


def test_a_thinned_history_keeps_its_counter_of_joules(tmp_path: Path) -> None:
    """Means of power over a minute, and the counter as it was at the end of each."""
    folder = write_history(tmp_path / "h", [Phase(3600, {0: train(600.0)})])
    for file in list_sealed(folder, "gpus"):
        thinned = thin_rows(pl.read_parquet(file), 60 * SECOND)
        thinned.write_parquet(file.with_name(f"60s-{file.parent.name[5:]}.parquet"))
        file.unlink()
    run = sightline.open(str(folder))
    counters = run.table("counters")
    energy = counters.filter(metric="energy")
    assert energy.get_column("from_ns").null_count() == energy.height > 50
    assert counters.filter(metric="power").get_column("from_ns").null_count() == 0
    (row,) = run.ask("energy").to_dicts()
    assert row["method"] == "counter"
    assert row["power_w"] == pytest.approx(600, rel=0.01)
