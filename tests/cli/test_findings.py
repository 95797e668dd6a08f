"""findings, whatif and critical-path on the command line."""

from __future__ import annotations

import json

import pytest

from support.command import sightline
from synth import SCENARIOS, kineto


@pytest.fixture
def trace(tmp_path):
    return kineto.write(SCENARIOS["dataloader_starved"](), tmp_path, dialect="2025")[0]


def test_json_is_a_list_the_most_important_first(trace):
    found = json.loads(sightline("findings", trace, "--json").out)
    needed = {"rule", "severity", "cost_ns", "cost_pct", "gain_ns", "confidence", "abstained"}
    assert all(needed <= set(f) for f in found)
    assert found[0]["rule"] == "dataloader-starved"
    assert found[0]["rows"][0]["launch_id"] is not None


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("warning", 1),
        ("critical", 1),
        ("dataloader-starved", 1),
        ("launch-bound", 0),
        ("dataloader_starved", 1),
    ],
)
def test_fail_on(trace, gate, code):
    assert sightline("findings", trace, "--fail-on", gate).code == code


def test_a_gate_that_is_no_rule_is_an_error(trace):
    outcome = sightline("findings", trace, "--fail-on", "no-such-rule")
    assert outcome.code == 2
    assert "neither a rule nor a severity" in outcome.err


def test_healthy_says_so(tmp_path):
    path = kineto.write(SCENARIOS["healthy"](), tmp_path, dialect="2025")[0]
    outcome = sightline("findings", path, "--fail-on", "warning")
    assert outcome.code == 0
    assert outcome.out.startswith("Healthy: the GPU computes for")


def test_markdown_and_sarif(trace):
    text = sightline("findings", trace, "--format", "markdown").out
    assert "### 1. Waiting for the DataLoader (critical, dataloader-starved)" in text
    assert "costs 11.07 ms (63.5 %) · fix gains up to 11.07 ms (63.5 %) · high confidence" in text
    sarif = json.loads(sightline("findings", trace, "--format", "sarif").out)
    assert sarif["version"] == "2.1.0"
    first = sarif["runs"][0]["results"][0]
    assert (first["ruleId"], first["level"]) == ("dataloader-starved", "error")


def test_whatif(trace):
    data = json.loads(sightline("whatif", trace, "--remove", "think:DataLoader", "--json").out)
    found = json.loads(sightline("findings", trace, "--json").out)
    assert data["saved_ns"] == found[0]["gain_ns"]
    outcome = sightline("whatif", trace, "--scale", "kernel:gemm=2")
    assert "longer" in outcome.out


@pytest.mark.parametrize(
    "words",
    [
        ["--scale", "kernel:x"],
        ["--remove", "nothing:x"],
        ["--remove", "kernel:no_such"],
        ["--scale", "kernel:x=fast"],
        ["--remove", "kernel:("],
        [],
    ],
)
def test_a_wrong_wish_is_an_error(trace, words):
    assert sightline("whatif", trace, *words).code == 2


def test_critical_path(trace):
    out = sightline("critical-path", trace).out
    assert "host, between calls" in out
    data = json.loads(sightline("critical-path", trace, "--json").out)
    assert sum(p["total_ns"] for p in data["parts"]) == data["path_ns"]
    assert sum(p["pct"] for p in data["parts"]) == pytest.approx(100)


def test_lines_fit_a_terminal_and_stay_whole_elsewhere(trace):
    import sightline as package
    from sightline import findings
    from sightline.report.finding_text import write_text

    run = package.open(str(trace))
    found = findings(run)
    broken, whole = write_text(found, run, 80), write_text(found, run)
    assert max(map(len, broken.splitlines())) <= 80
    assert broken.split() == whole.split()
    assert len(whole.splitlines()) < len(broken.splitlines())
