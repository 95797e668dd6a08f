"""findings, whatif and critical-path on the command line."""

from __future__ import annotations

import json

import pytest

from sightline.core.model.declare import Finding
from sightline.views.terminal.finding_text import write_lines, write_markdown, write_text
from support.command import sightline
from support.traces import kernel, launched, opened
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
    assert "costs 11.07 ms (63.5 %) · could save all of it · high confidence" in text
    sarif = json.loads(sightline("findings", trace, "--format", "sarif").out)
    assert sarif["version"] == "2.1.0"
    first = sarif["runs"][0]["results"][0]
    assert (first["ruleId"], first["level"]) == ("dataloader-starved", "error")


def test_whatif(trace):
    data = json.loads(sightline("whatif", trace, "--remove", "cpu:DataLoader", "--json").out)
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
    assert "CPU code between calls" in out
    data = json.loads(sightline("critical-path", trace, "--json").out)
    assert sum(p["total_ns"] for p in data["parts"]) == data["path_ns"]
    assert sum(p["pct"] for p in data["parts"]) == pytest.approx(100)


def test_lines_fit_a_terminal_and_stay_whole_elsewhere(trace):
    import sightline as package
    from sightline import findings
    from sightline.views.terminal.finding_text import write_text

    run = package.open(str(trace))
    found = findings(run)
    broken, whole = write_text(found, run, 80), write_text(found, run)
    assert max(map(len, broken.splitlines())) <= 80
    assert broken.split() == whole.split()
    assert len(whole.splitlines()) < len(broken.splitlines())


def test_rules_of_kernels_that_nobody_profiled_are_not_named(tmp_path):
    """A trace of NVIDIA's GPU with no counters: neither vendor's kernel rules ask for any."""
    opened(tmp_path, [launched(50 * i, kernel("k", 50 * i + 10, 10)) for i in range(20)])
    found = json.loads(sightline("findings", str(tmp_path / "trace.json"), "--json").out)
    assert found
    assert [f["rule"] for f in found if f["rule"].startswith(("amd-", "ncu-"))] == []


def test_what_could_not_be_judged_for_one_reason_is_one_line(tmp_path):
    found = [
        Finding("a", "A", "info", "not judged", abstained=True, reason="no clocks"),
        Finding("b", "B", "info", "not judged", abstained=True, reason="no counters"),
        Finding("c", "C", "info", "not judged", abstained=True, reason="no clocks"),
    ]
    run = opened(tmp_path, [launched(0, kernel("k", 10, 10))])
    said = write_text(found, run).splitlines()
    assert said[-2:] == ["Not judged: a, c (no clocks)", "Not judged: b (no counters)"]
    assert "- not judged: a, c: no clocks" in write_markdown(found, run)


@pytest.mark.parametrize(
    ("evidence", "line"),
    [
        (
            ("66 % in split (src/a.py:24), of 3.2 s", "b.py:7"),
            "src/a.py:24: warning: T: S. Fix: F [r]",
        ),
        (("at 12:30:05, 1.5:3, http://host.example:80/",), "t.json:1: warning: T: S. Fix: F [r]"),
        (("k\nx.py:1 of a name",), "x.py:1: warning: T: S. Fix: F [r]"),
        ((), "t.json:1: warning: T: S. Fix: F [r]"),
    ],
)
def test_lines_name_the_place_as_compilers_do(evidence, line):
    finding = Finding("r", "T", "warning", "S.", evidence=evidence, fix="F")
    assert write_lines([finding], ["t.json"]) == line


def test_lines_of_a_recording(trace):
    lines = sightline("findings", trace, "--format", "lines").out.splitlines()
    assert lines[0].startswith(f"{trace}:1: error: Waiting for the DataLoader: ")
    assert lines[0].endswith(" [dataloader-starved]")
