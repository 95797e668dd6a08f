"""What a program gets from `import sightline`: findings, the report, and runs that travel."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import sightline
from support.command import sightline as command

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "simulated-dataloader.json.gz"


def test_every_public_name_is_there():
    assert [name for name in sightline.__all__ if not hasattr(sightline, name)] == []


def test_findings_are_those_of_the_command():
    found = sightline.findings(sightline.open(str(EXAMPLE)))
    assert found[0].rule == "dataloader-starved"
    printed = json.loads(command("findings", EXAMPLE, "--json").out)
    assert [f.rule for f in found] == [f["rule"] for f in printed]
    assert [f.gain_ns for f in found] == [f["gain_ns"] for f in printed]


def test_rules_of_ones_own_are_asked(tmp_path):
    rules = tmp_path / "mine.yaml"
    rules.write_text(
        "tag: idle\nmetrics: [breakdown]\nrule: breakdown.idle_pct.max > 1\n"
        "cost: breakdown.idle_ns.sum\n"
    )
    run = sightline.open(str(EXAMPLE))
    assert len(sightline.findings(run, rules=[str(rules)])) == len(sightline.findings(run)) + 1


def test_the_report_is_that_of_the_command():
    data = json.loads(json.dumps(sightline.open(str(EXAMPLE)).report(), default=str))
    assert data == json.loads(command("report", EXAMPLE, "--json").out)


def test_a_run_travels_to_a_worker():
    run = sightline.open(str(EXAMPLE)).with_window("5ms..10ms")
    run.ask("breakdown")  # what was computed stays behind
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(sightline.Run.ask, run, "breakdown").result(timeout=60)
    assert there.equals(run.ask("breakdown"))
    assert pickle.loads(pickle.dumps(run)).window == "5ms..10ms"


def test_import_loads_no_engine():
    code = "import sys, sightline; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
