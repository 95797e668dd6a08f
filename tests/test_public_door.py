"""What a program gets from `import sightline`: findings, the report, and runs that travel."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import sightline
from support import traces
from support.command import sightline as command
from support.places import EXAMPLES

EXAMPLE = EXAMPLES / "simulated-dataloader.json.gz"


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


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda run: run.critical_path(), ["critical-path"]),
        (lambda run: run.what_if(remove=["memcpy:HtoD"]), ["whatif", "--remove", "memcpy:HtoD"]),
    ],
)
def test_a_run_answers_as_the_command_does(ask, words):
    printed = json.loads(command(words[0], EXAMPLE, *words[1:], "--json").out)
    assert json.loads(json.dumps(ask(sightline.open(str(EXAMPLE))))) == printed


def test_a_run_is_asked_for_the_window_without_a_finding():
    run = sightline.open(str(EXAMPLE))
    data = run.what_if(remove=["dataloader-starved"])
    printed = command("whatif", EXAMPLE, "--remove", "dataloader-starved", "--json").out
    assert json.loads(json.dumps(data["findings"])) == json.loads(printed)
    (found,) = (f for f in run.findings() if f.rule == "dataloader-starved")
    assert data["window_ns"] - data["new_window_ns"] == data["saved_ns"] == found.gain_ns
    assert data["saved_pct"] == pytest.approx(found.gain_pct)
    with pytest.raises(sightline.errors.RequestError, match="only be removed, and only by itself"):
        run.what_if(remove=["dataloader-starved", "memcpy:HtoD"])


def test_a_run_writes_what_the_command_writes(tmp_path):
    run = sightline.open(str(EXAMPLE))
    for ending in ("folded", "speedscope.json", "svg"):
        run.flame(str(tmp_path / f"mine.{ending}"))
        assert command("flame", EXAMPLE, "-o", tmp_path / f"theirs.{ending}").code == 0
        mine, theirs = (tmp_path / f"{who}.{ending}" for who in ("mine", "theirs"))
        assert mine.read_bytes() == theirs.read_bytes()
    (written,) = run.export(str(tmp_path / "run.perfetto-trace"), "perfetto")
    assert written == str(tmp_path / "run.perfetto-trace")
    with pytest.raises(sightline.errors.RequestError):
        run.flame(str(tmp_path / "flame.docx"))


def test_a_run_without_counters_has_no_roofline():
    with pytest.raises(sightline.errors.MissingDataError):
        sightline.open(str(EXAMPLE)).roofline()


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


def test_a_run_shows_itself_in_one_line():
    run = sightline.open(str(EXAMPLE))
    assert repr(run) == (
        "<sightline run: simulated-dataloader.json.gz · PyTorch profiler · "
        "1 × NVIDIA A100-SXM4-80GB · 95 GPU operations · 231 CPU ranges>"
    )
    assert repr(run.with_window("5ms..10ms")).endswith("· window 5ms..10ms>")
    page = run._repr_html_()
    assert "<td>device_ops</td><td style='text-align:right'>95</td>" in page
    assert "run.findings()" in page


def test_names_of_a_recording_are_texts_in_a_notebook(tmp_path):
    path = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    evil = path.with_name("<script>alert(1)<script>.json")
    path.rename(evil)
    assert "<script>" not in sightline.open(evil)._repr_html_()


def test_dir_shows_the_public_names_only():
    shown = [name for name in dir(sightline) if not name.startswith("_")]
    assert shown == sorted(sightline.__all__)


def test_paths_may_be_a_list_and_paths():
    ranks = sorted((EXAMPLE.parent / "simulated-straggler").glob("*.json.gz"))
    whole = sightline.open(*map(str, ranks)).ask("breakdown")
    assert sightline.open(ranks).ask("breakdown").equals(whole)
    assert sightline.open([str(ranks[0]), ranks[1:]]).ask("breakdown").equals(whole)


@pytest.mark.parametrize("wrong", [(), ([],), (3,), (None,), (b"trace.json",), ("no.json",)])
def test_wrong_paths_are_errors_of_ours(wrong):
    with pytest.raises(sightline.InputError):
        sightline.open(*wrong)


def test_parameters_carry_units_as_on_the_command_line():
    run = sightline.open(str(EXAMPLE), window="0ms..10ms")
    with_unit = run.ask("idle_gaps", threshold_ns="100us")
    assert with_unit.equals(run.ask("idle_gaps", threshold_ns=100_000))
    assert 0 < with_unit.height < run.ask("idle_gaps").height
    for wrong in ("soon", [1], 2.5):
        with pytest.raises(sightline.RequestError):
            run.ask("idle_gaps", threshold_ns=wrong)


def test_a_run_answers_with_findings_and_explains_them():
    run = sightline.open(str(EXAMPLE))
    found = run.findings()
    assert found == sightline.findings(run)
    page = run.explain(found[0])
    assert page == run.explain("dataloader-starved") == sightline.explain("dataloader_starved")
    # The command wraps the page to the terminal's width.
    assert page.split() == command("explain", "dataloader-starved").out.split()
    with pytest.raises(sightline.RequestError, match="did you mean launch-bound"):
        run.explain("lanch-bound")
