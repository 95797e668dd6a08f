"""Rules, both ways: where each must speak, and where it must be silent."""

from __future__ import annotations

import pytest

import sightline
from sightline import findings
from sightline.core import registry
from sightline.core.model.declare import Finding
from sightline.core.model.run import page
from synth import SCENARIOS, kineto


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
    assert by_rule["dominating-kernel"].severity == "info"


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
