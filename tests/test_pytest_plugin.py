"""The fixture `sightline`, in sessions of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# What they share is made once.
pytestmark = pytest.mark.xdist_group("pytest plug-in")

# The clock is the test's: a pass takes LENGTH µs, off by 1 % from run to run and step to step.
CONFTEST = """
import os, random
import pytest
import sightline.record.inline.step as module

dice = random.Random(os.environ["SEED"])
clock = [module.now()]
module.now = lambda: clock[0]

@pytest.fixture
def work():
    run = dice.gauss(1, 0.01)
    def work():
        clock[0] += round(float(os.environ["LENGTH"]) * 1000 * run * dice.gauss(1, 0.01))
    return work
"""
TEST = """
def test_forward(sightline, work):
    for _ in sightline.steps(15):
        work()

def test_left_early(sightline, work):
    for _ in sightline.steps(15):
        break
"""


def _run_pytest(folder: Path, *words: str, seed: int = 0, length: int = 1000) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "", "HOME": str(folder), "SEED": str(seed), "LENGTH": str(length)},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose tests have a baseline of three runs."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TEST)
    for seed in range(3):
        code, said = _run_pytest(folder, "--sightline-update", seed=seed)
        assert code == 0, said
        assert f"test_it.py::test_forward: run {seed + 1} of the baseline" in said
    return folder


def test_baseline_is_small_text(project: Path) -> None:
    files = sorted((project / "sightline-baselines").rglob("*.json"))
    assert [f.name for f in files] == [f"run{n:03}.json" for n in range(3)]
    assert all(f.stat().st_size <= 20_000 for f in files)


def test_the_same_program_passes(project: Path) -> None:
    code, said = _run_pytest(project, seed=5)
    assert code == 0, said
    assert "test_it.py::test_forward: No measurable change" in said
    assert "test_left_early:" not in said


def test_a_slower_program_fails(project: Path) -> None:
    code, said = _run_pytest(project, seed=6, length=1500)
    assert code == 1
    assert "FAILED test_it.py::test_forward" in said
    assert "the verdict is slower" in said
    assert "Slower by " in said


@pytest.mark.campaign
def test_another_condition(project: Path) -> None:
    condition = ("--sightline-fail-on", "step_ns > 80%")
    assert _run_pytest(project, *condition, seed=7, length=1500)[0] == 0
    code, said = _run_pytest(project, "--sightline-fail-on", "nonsense")
    assert code == 1
    assert "is not a condition" in said


def test_no_baseline(project: Path, tmp_path: Path) -> None:
    code, said = _run_pytest(project, "--sightline-baselines", str(tmp_path / "none"))
    assert code == 0
    assert "no baseline: pytest --sightline-update, three times, makes one" in said


def test_unused_it_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    heavy = {'polars', 'numpy', 'scipy', 'sightline.compare', 'sightline.record.inline'}\n"
        "    assert 'sightline.doors.pytest_plugin' in sys.modules\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    code, said = _run_pytest(tmp_path)
    assert code == 0, said
