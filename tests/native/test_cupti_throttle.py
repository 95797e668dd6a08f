"""How much is recorded within a budget, and what is said of its cost: known loads and times."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from sightline.formats.nvidia.cupti.cost import estimate_perturbation, list_costs
from support.cupti_mock import NATIVE, OWN, Built, build, play

pytestmark = pytest.mark.xdist_group("cupti")
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no g++ was found")
    target = tmp_path_factory.mktemp("throttle") / "steps"
    sources = [OWN / "throttle_steps.cpp", NATIVE / "cupti" / "throttle.cpp"]
    subprocess.run(
        ["g++", "-std=c++17", f"-I{NATIVE}", *map(str, sources), "-o", str(target)], check=True
    )
    return target


@pytest.fixture(scope="module", params=[False, True], ids=["structs", "layouts"])
def built(request: pytest.FixtureRequest) -> Built:
    return build(layouts=request.param)


def decide(steps: Path, budget: float, costs_pct: Sequence[float]) -> list[int]:
    """The level after each second that cost so much."""
    lines = "".join(
        f"{SECOND} {round(c * SECOND / 200)} {round(c * SECOND / 200)}\n" for c in costs_pct
    )
    done = subprocess.run(
        [str(steps), "steps", str(budget)], input=lines, capture_output=True, text=True, check=True
    )
    return [int(line) for line in done.stdout.split()]


def test_calls_go_first_then_nodes_then_all_but_windows(steps: Path) -> None:
    assert decide(steps, 1, [0.5, 0.99, 1.01, 2, 3, 4, 5]) == [0, 0, 1, 2, 3, 3, 3]


def test_it_comes_back_when_it_is_calm_for_long(steps: Path) -> None:
    calm = [0.2] * 10
    assert decide(steps, 1, [2, *calm, 0.2])[-2:] == [0, 0]
    assert decide(steps, 1, [2, 2, *calm])[-1] == 1
    # Neither over the budget nor far below: it stays.
    assert decide(steps, 1, [2, *[0.5] * 50])[-1] == 1
    assert decide(steps, 1, [2, *([0.2] * 9 + [0.5]) * 5])[-1] == 1


def test_the_budget_is_what_was_asked_for(steps: Path) -> None:
    assert decide(steps, 10, [2, 9, 11]) == [0, 0, 1]


def test_windows_have_no_rhythm(steps: Path) -> None:
    done = subprocess.run(
        [str(steps), "windows", "7", "4000"], capture_output=True, text=True, check=True
    )
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(first[0] != second[0] for first, second in pairs)
    # Which of the two comes first is a coin: 1,000 of 2,000, within four standard deviations.
    assert abs(sum(first[0] for first, _ in pairs) - 1000) < 4 * math.sqrt(500)
    for is_on, mean in ((1, 200), (0, 1800)):
        lengths = [length for on, length in rows if on == is_on]
        assert all(mean / 2 <= n <= mean * 3 / 2 for n in lengths)
        spread = mean / math.sqrt(12) / math.sqrt(len(lengths))
        assert abs(sum(lengths) / len(lengths) - mean) < 5 * spread


def simulate(chance: random.Random, slower: float, pairs: int) -> pl.DataFrame:
    """Windows of a program whose speed drifts and jitters, recorded at a known cost."""
    rows, at = [], 0
    for k in range(pairs):
        order = [1, 0] if chance.random() < 0.5 else [0, 1]
        for is_on in order:
            length = chance.randrange(100_000_000, 300_000_000)
            speed = (1 + 0.5 * math.sin(k / 7)) * math.exp(chance.gauss(0, 0.05))
            rate = 1e-4 * speed * (1 - slower * is_on)
            rows.append((at, at + length, 0, is_on, round(rate * length), 0, 0, 0, 1))
            at += length
    names = [
        "start",
        "end",
        "level",
        "is_on",
        "launches",
        "records",
        "own_ns",
        "cpu_ns",
        "is_measured",
    ]
    return pl.DataFrame(rows, schema=names, orient="row")


@pytest.mark.parametrize("slower", [0.0, 0.03, 0.4])
def test_the_interval_holds_the_truth_as_often_as_it_says(slower: float) -> None:
    chance = random.Random(1)
    trials, inside = 400, 0
    for _ in range(trials):
        found = estimate_perturbation(simulate(chance, slower, 25))
        assert found is not None
        assert found.pairs == 25
        inside += found.low_pct <= 100 * slower <= found.high_pct
    # 95 %, within three standard deviations of 400 trials.
    assert abs(inside / trials - 0.95) < 3 * math.sqrt(0.05 * 0.95 / trials)


def test_too_few_pairs_say_nothing() -> None:
    assert estimate_perturbation(simulate(random.Random(1), 0.1, 3)) is None
    assert list_costs(simulate(random.Random(1), 0.1, 0), is_throttled=False) == []


def test_what_is_said_of_a_known_recording() -> None:
    """6 s with all, 2 s without calls, then a window of 1 s and a pause of 1 s."""
    rows = [
        (0, 6, 0, 1, 0, 6_000, 6, 54, 0),
        (6, 8, 1, 1, 0, 1_000, 1, 9, 0),
        (8, 9, 3, 1, 5, 1_000, 1, 9, 1),
        (9, 10, 3, 0, 5, 0, 0, 0, 1),
    ]
    names = [
        "start",
        "end",
        "level",
        "is_on",
        "launches",
        "records",
        "own_ns",
        "cpu_ns",
        "is_measured",
    ]
    windows = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("start", "end") * SECOND, pl.col("own_ns", "cpu_ns") * 1_000_000
    )
    said = {q.kind: q.text for q in list_costs(windows, is_throttled=True)}
    assert "90.0 % of the time" in said["recorded_in_windows"]
    assert "60.0 % of the time" in said["calls_left_out"]
    assert "80.0 % of the time" in said["graphs_recorded_whole"]
    assert (
        "took 0.8 % of one core (0.1 % on the program's threads), for 800 records/s"
        in said["recording_cost"]
    )


@pytest.mark.timing
def test_a_known_cost_is_found(built: Built, tmp_path: Path) -> None:
    """A launch takes 20 µs, and 20 µs more where it is recorded: half the speed."""
    outcome = play(
        built, tmp_path, "work=3000", SIGHTLINE_CUPTI_MEASURE="1", SIGHTLINE_CUPTI_ON_MS="40",
        SIGHTLINE_CUPTI_OFF_MS="40", MOCK_WORK_NS="20000", MOCK_COST_NS="20000",
    )  # fmt: skip
    windows = outcome.file.frame("windows")
    found = estimate_perturbation(windows)
    assert found is not None
    assert found.pairs > 8
    # On a busy machine the interval is wide, as it must be; on an idle one it is some 2 % wide.
    # Four standard errors, and 5 % for what else the machine does: 95 % would be too few here.
    assert abs(found.pct - 50) < 5 + (found.high_pct - found.low_pct)
    # The stretches come one after the other. All that is launched in a window is kept, and nothing
    # that is launched in a pause; what is launched while recording is switched, which takes long on
    # a busy machine, is in neither and may be kept or not.
    assert (windows["start"].to_numpy()[1:] >= windows["end"].to_numpy()[:-1]).all()
    kept = outcome.file.tables["kernels"].rows
    on = windows.filter(pl.col("is_on") == 1)["launches"].sum()
    switching = int(outcome.said.split()[-1]) - windows["launches"].sum()
    assert -windows.height <= kept - on <= switching + windows.height
    assert {"perturbation", "recorded_in_windows", "recording_cost"} <= set(outcome.limits)


@pytest.mark.timing
def test_a_heavy_load_is_recorded_less_and_less(built: Built, tmp_path: Path) -> None:
    """Millions of launches a second: each level is reached, and said."""
    outcome = play(
        built, tmp_path, "work=1500", SIGHTLINE_CUPTI_BUDGET_PCT="1",
        SIGHTLINE_CUPTI_DECIDE_MS="100", SIGHTLINE_CUPTI_ON_MS="20", SIGHTLINE_CUPTI_OFF_MS="180",
    )  # fmt: skip
    windows = outcome.file.frame("windows")
    levels = windows["level"].to_list()
    assert levels == sorted(levels)
    assert set(levels) == {0, 1, 2, 3}
    without = windows.filter(pl.col("level") >= 1).select(pl.min("start")).item()
    assert without > 0
    assert outcome.file.tables["kernels"].rows > outcome.file.tables["runtime_calls"].rows
    assert {"calls_left_out", "graphs_recorded_whole", "recorded_in_windows"} <= set(outcome.limits)


@pytest.mark.timing
def test_a_light_load_is_recorded_whole(built: Built, tmp_path: Path) -> None:
    outcome = play(
        built, tmp_path, "launch=20", "sleep=700", "launch=20",
        SIGHTLINE_CUPTI_BUDGET_PCT="5", SIGHTLINE_CUPTI_DECIDE_MS="100",
    )  # fmt: skip
    assert set(outcome.file.frame("windows")["level"]) == {0}
    assert outcome.imported.tables["device_ops"].height == 40
    assert outcome.limits == {"recording_cost": None}


def test_what_is_taken_once_leaves_nothing_out(built: Built, tmp_path: Path) -> None:
    """To set up PC sampling takes 75 ms on an H100: recording less would save none of it."""
    outcome = play(
        built, tmp_path, "context=1", "launch=20", "sleep=400", "launch=20",
        SIGHTLINE_CUPTI_BUDGET_PCT="20", SIGHTLINE_CUPTI_DECIDE_MS="100",
        SIGHTLINE_CUPTI_PC="continuous", MOCK_SLOW_SAMPLING_MS="75",
    )  # fmt: skip
    windows = outcome.file.frame("windows")
    assert set(windows["level"]) == {0}
    assert windows["own_ns"].sum() > 75_000_000  # it is a cost all the same
    assert "calls_left_out" not in outcome.limits
