"""Rules, both ways: where each must speak, and where it must be silent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from sightline import findings
from sightline.core import registry
from sightline.core.model.declare import Finding
from sightline.core.model.run import page
from synth import SCENARIOS, kineto

CPU_TRAINING = Path(__file__).parents[2] / "examples" / "cpu-training.json.gz"


def found(name: str, tmp_path, **options) -> list[Finding]:
    kineto.write(SCENARIOS[name](**options), tmp_path, dialect="2025")
    return [f for f in findings(sightline.open(str(tmp_path))) if f.severity != "info"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("scenario", "rule", "cause"),
    [
        ("launch_bound", "launch-bound", "host_late"),
        ("dataloader_starved", "dataloader-starved", "data_loading"),
        ("sync_every_step", "sync-in-step", "host_sync"),
        ("h2d_bound", "pageable-copies", None),
        ("exposed_communication", "exposed-communication", None),
        ("straggler", "straggler-rank", None),
    ],
)
def test_the_planted_problem_comes_first(scenario, rule, cause, seed, tmp_path):
    first = found(scenario, tmp_path, seed=seed)[0]
    assert first.rule == rule
    assert first.where.get("cause") == cause
    assert first.gain_ns
    assert first.method
    assert first.cause
    assert first.rows
    assert first.sources
    assert first.fix
    assert first.verify


def test_silence_where_nothing_is_wrong(tmp_path):
    assert found("healthy", tmp_path) == []


def test_the_late_rank_is_named(tmp_path):
    first = found("straggler", tmp_path)[0]
    assert first.where["late_ranks"] == [1]


def test_a_dominating_kernel_is_a_remark_not_an_alarm(tmp_path):
    kineto.write(SCENARIOS["dominating_kernel"](), tmp_path, dialect="2025")
    by_rule = {f.rule: f for f in findings(sightline.open(str(tmp_path)))}
    # It is said once, beside that the GPU is busy.
    assert "dominating-kernel" not in by_rule
    assert by_rule["device-busy"].severity == "info"
    assert by_rule["device-busy"].where["kernel_pct"] > 50


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A program with a GPU's timeline, and one without."""
    folder = tmp_path_factory.mktemp("runs")
    kineto.write(SCENARIOS["launch_bound"](), folder, dialect="2025")
    return [sightline.open(str(path)) for path in (folder, CPU_TRAINING)]


@pytest.mark.parametrize("name", registry.list_names("rules"))
def test_a_rule_is_silent_without_the_tables_that_its_subject_needs(name, runs):
    needs = registry.subject_of("rules", name).needs
    for run in runs:
        if needs and not any(map(run.rows, needs)):
            assert list(registry.load("rules", name).check(run)) == []


def test_what_a_recording_has_no_table_for_is_not_loaded():
    """Nor NumPy, which takes a third as long as Polars."""
    code = "import sys, sightline as s; s.findings(s.open(sys.argv[1])); print(*sys.modules)"
    words = [sys.executable, "-c", code, str(CPU_TRAINING)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sightline.subjects.host.rules.host_busy" in loaded
    assert "sightline.subjects.kernels.rules.few_blocks" not in loaded
    assert not [name for name in loaded if name.startswith("sightline.subjects.jobs.rules")]
    assert "numpy" not in loaded


@pytest.mark.parametrize("name", registry.list_names("rules"))
def test_a_rule_carries_its_page(name):
    text = page(registry.load("rules", name))
    order = [
        "Symptom",
        "Why it hurts",
        "Evidence",
        "Threshold",
        "Fix",
        "False positives",
        "References",
    ]
    places = [text.index(f"\n{heading}\n") for heading in order]
    assert places == sorted(places)
