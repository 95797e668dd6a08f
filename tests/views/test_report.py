"""The report: as data, on 80 columns, and what it says of simulated and of real programs."""

from __future__ import annotations

import json
import re

import pytest

from support import traces
from support.campaigns import sample
from support.command import sightline
from support.corpus import list_recordings, name_recording
from support.places import ROOT
from synth import SCENARIOS, kineto


def lines_of(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_fits_80_columns(name, tmp_path):
    kineto.write(SCENARIOS[name](), tmp_path, dialect="2025")
    outcome = sightline("report", tmp_path)
    assert outcome.code == 0, outcome.err
    assert max(map(len, lines_of(outcome.out))) <= 80


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", sample(list_recordings("kineto/AMD-AGI__TraceLens/**/*.json.gz"), 3), ids=name_recording
)
def test_real_recordings_fit_80_columns(path):
    outcome = sightline(path)
    assert outcome.code == 0, outcome.err
    assert max(map(len, lines_of(outcome.out))) <= 80


@pytest.mark.corpus
def test_megatron_names_the_ranks_that_the_others_wait_for(corpus):
    outcome = sightline("report", corpus / "kineto/astra-sim__astra-sim/megatron-tp8")
    text = " ".join(outcome.out.split())
    assert "in collectives, waiting for ranks 0 and 6, whose hosts launch late" in text
    assert "rank 0 arrived last at 32 of 84 collectives" in text
    assert [line[0] for line in lines_of(outcome.out) if line.endswith("◀")] == ["0", "6"]


def test_json_is_the_screen_as_data(tmp_path):
    kineto.write(SCENARIOS["dataloader_starved"](), tmp_path, dialect="2025")
    data = json.loads(sightline("report", tmp_path, "--json").out)
    assert data["schema"] == "sightline-report/1"
    first = data["findings"][0]
    assert (first["rule"], first["where"]["cause"]) == ("dataloader-starved", "data_loading")
    loading = [r for r in data["idle"] if r["cause"] == "data_loading"]
    assert first["cost_ns"] == loading[0]["total_ns"]
    assert 0 < first["gain_ns"] <= data["breakdown"][0]["window_ns"]


@pytest.mark.parametrize("suffix", [".txt", ".md", ".json"])
def test_into_a_file(suffix, tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    target = tmp_path / f"report{suffix}"
    outcome = sightline("report", trace, "-o", target)
    assert outcome.code == 0
    assert outcome.out == ""
    assert re.search(r"\b1 GPU operation\b", target.read_text()) or suffix == ".json"


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("report", trace, "-o", tmp_path / "no" / "such" / "report.txt")
    assert outcome.code == 2
    assert "cannot write" in outcome.err


def test_texts_of_a_recording_cannot_steer_the_terminal(tmp_path):
    evil = "\x1b]0;owned\x07[bold red]x[/]\x1b[2J"
    trace = traces.write(
        tmp_path,
        [traces.op(evil, 0, 9), traces.kernel(evil, 0, 5), traces.kernel(evil, 10, 5)],
        deviceProperties=[{"id": 0, "name": evil}],
    )
    out = sightline("report", trace).out
    assert "\x1b]" not in out
    assert "\x07" not in out
    assert "[bold red]x[/]" in out  # shown as it is, not taken for markup


def test_a_healthy_program_gets_no_finding_with_a_gain(tmp_path):
    kineto.write(SCENARIOS["healthy"](), tmp_path, dialect="2025")
    data = json.loads(sightline("report", tmp_path, "--json").out)
    assert {f["severity"] for f in data["findings"]} <= {"info"}


def test_what_the_readme_shows_is_what_the_command_prints():
    shown = (ROOT / "README.md").read_text().split("```text\n$ sightline ", 1)[1].split("```", 1)[0]
    command, _, rest = shown.partition("\n")
    printed = lines_of(sightline(ROOT / command).out)
    expected = rest.rstrip("\n").splitlines()
    assert printed[: len(expected)] == expected


def test_exposed_communication_says_what_it_leaves_to_another_rule():
    found = json.loads(sightline("findings", ROOT / "examples/simulated-straggler", "--json").out)
    first = next(f for f in found if f["rule"] == "exposed-communication")["evidence"][0]
    # Less than the breakdown beside it shows, whose waiting straggler-rank accounts for.
    assert first.endswith("exposed, not counting waits for late ranks")
