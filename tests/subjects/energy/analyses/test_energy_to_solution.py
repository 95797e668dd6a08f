"""energy_to_solution: joules of GPUs and the host, per token, per kWh, per operation."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.errors import RequestError
from sightline.record.monitor.sources import rapl
from sightline.timeline.energy import HOST_PARTS
from support.histories import Phase, train, write_history


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two GPUs at 600 and 400 W and a CPU at 250 W, for 1,000 s."""
    shown = {0: train(600.0), 1: train(400.0), -1: {"power": 250.0}}
    folder = write_history(tmp_path_factory.mktemp("solution") / "h", [Phase(1000, shown)])
    return sightline.open(str(folder))


def ask(run: Run, **params: object) -> dict[str, dict[str, float]]:
    return {row["part"]: row for row in run.ask("energy_to_solution", **params).to_dicts()}


def test_gpus_host_and_sums(run: Run) -> None:
    rows = ask(run)
    assert list(rows) == ["GPU 0", "GPU 1", "all GPUs", "package-0", "host", "GPUs and host"]
    watts = {part: row["power_w"] for part, row in rows.items()}
    assert watts == pytest.approx(
        {"GPU 0": 600, "GPU 1": 400, "all GPUs": 1000, "package-0": 250, "host": 250,
         "GPUs and host": 1250}
    )  # fmt: skip
    for row in rows.values():
        seconds = row["measured_ns"] / 1e9
        assert row["energy_j"] == pytest.approx(row["power_w"] * seconds)
        assert row["low_j"] <= row["energy_j"] <= row["high_j"]
        # Nothing that was not told is made up.
        assert (row["j_per_unit"], row["co2_g"]) == (None, None)


def test_joules_for_each_token_and_grams_of_co2_have_bounds(run: Run) -> None:
    row = ask(run, units=50_000, g_per_kwh="360")["GPUs and host"]
    assert row["j_per_unit"] == pytest.approx(row["energy_j"] / 50_000)
    assert row["low_j_per_unit"] <= row["j_per_unit"] <= row["high_j_per_unit"]
    # 360 g/kWh are a tenth of a milligram for each joule.
    assert row["co2_g"] == pytest.approx(row["energy_j"] / 1e4)
    assert row["low_co2_g"] <= row["co2_g"] <= row["high_co2_g"]


def test_operations_come_from_the_person_or_from_the_pipes(run: Run) -> None:
    given = ask(run, flop="3e17")
    whole = given["all GPUs"]
    assert whole["tflops_per_w"] == pytest.approx(3e5 / whole["energy_j"])
    assert (given["GPU 0"]["tflops_per_w"], whole["flop_source"]) == (None, "given")
    told = ask(run)["GPU 0"]
    # H200: 132 SMs x 4096 FLOP a cycle (BF16, dense) x half of the cycles at 1.8 GHz, at 600 W.
    assert told["tflops_per_w"] == pytest.approx(132 * 4096 * 0.5 * 1.8e9 / 600 / 1e12)
    assert told["flop_source"] == "activity of the pipes: at most"


@pytest.mark.parametrize("wrong", [{"g_per_kwh": "-3"}, {"flop": "many"}, {"units": -1}])
def test_wrong_factors_are_refused(run: Run, wrong: dict[str, object]) -> None:
    with pytest.raises(RequestError):
        ask(run, **wrong)


def test_parts_of_a_package_are_not_added_to_it(tmp_path: Path) -> None:
    """Zones as Linux lists them: a package, its cores and its memory."""
    root = tmp_path / "class" / "powercap"
    names = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram",
             "intel-rapl:1": "psys"}  # fmt: skip
    for folder, name in names.items():
        (root / folder).mkdir(parents=True)
        (root / folder / "name").write_text(f"{name}\n")
        (root / folder / "energy_uj").write_text("5000000\n")
        (root / folder / "max_energy_range_uj").write_text("262143328850\n")
    told = rapl.open_source(root=tmp_path).read(1, 1).readings
    sources = sorted(str(reading.entity.source) for reading in told)
    counted = [source for source in sources if HOST_PARTS.fullmatch(source)]
    assert counted == ["package-0", "package-0 dram"], sources
