"""What makes a release: workflows, recipe and lists parse, belong together, and say what is so."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import sightline
from support import traces
from support.places import ROOT
from support.scripts import load_script

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "examples" / "github" / "compare"
RECIPE = ROOT / "packaging" / "conda-forge" / "recipe.yaml"
# Names of conda-forge's packages that are not PyPI's.
CONDA = {"msgpack": "msgpack-python", "prometheus-client": "prometheus_client"}


def list_steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, ROOT / "examples/github/pull-request.yml"], ids=lambda p: p.name
)
def test_a_workflow_may_little_and_runs_what_it_names(path: Path):
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert told["permissions"] == {"contents": "read"}
    for step in list_steps(path):
        used = step.get("uses", "./")
        # A tag may be moved to other code; a commit may not.
        assert used.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used
        # What others choose (titles, branches) is no text of a script.
        assert "${{" not in step.get("run", "")


def test_only_publishing_may_sign_and_keeps_no_token():
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    signing = [n for n, j in release["jobs"].items() if "id-token" in j.get("permissions", {})]
    assert signing == ["publish"]
    assert release["jobs"]["publish"]["needs"] == ["sdist", "wheels"]
    assert "secrets." not in json.dumps(release)


def test_wheels_are_of_the_pythons_that_are_supported():
    least = PROJECT["project"]["requires-python"].removeprefix(">=3.")
    shared = PROJECT["tool"]["scikit-build"]["wheel"]["py-api"]
    own = [f"cp3{minor}-*" for minor in range(int(least), int(shared.removeprefix("cp3")))]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [*own, f"{shared}-*"]
    words = re.findall(r"scripts/[\w.]+", json.dumps(PROJECT["tool"]["cibuildwheel"]))
    assert words
    assert all((ROOT / word).is_file() for word in words)


def test_the_recipe_is_in_step_with_the_project():
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == PROJECT["project"]["version"] == sightline.__version__
    wanted = {f"python {PROJECT['project']['requires-python']}"}
    for text in PROJECT["project"]["dependencies"]:
        name, bounds = re.fullmatch(r"([\w.-]+)([^;]*)(?:;.*)?", text).groups()
        wanted.add(f"{CONDA.get(name, name)} {bounds}")
    assert set(recipe["requirements"]["run"]) == wanted
    needed = {re.sub(r"(?<=[a-z])(?=>)", " ", text) for text in PROJECT["build-system"]["requires"]}
    assert needed <= set(recipe["requirements"]["host"])


WHOLE = "compiled reader: yes\nHTML pages: yes\nGPU recorder (CUPTI): yes\nprobes by eBPF: yes"


@pytest.mark.parametrize(
    ("version", "platform", "parts", "missing"),
    [
        (WHOLE, "linux", {"share/man/man1/sightline.1", "sightline._marks"}, []),
        (WHOLE, "linux", {"sightline._marks"}, ["share/man/man1/sightline.1"]),
        (WHOLE.replace("eBPF: yes", "eBPF: no; install clang"), "linux",
         {"share/man/man1/sightline.1", "sightline._marks"}, ["probes by eBPF"]),
        ("compiled reader: yes\nHTML pages: yes", "darwin", set(), []),
        ("compiled reader: yes\nHTML pages: no", "win32", set(), ["HTML pages"]),
    ],
)  # fmt: skip
def test_a_wheel_without_a_part_is_refused(version, platform, parts, missing):
    assert load_script("check_wheel").list_missing(version, platform, parts) == missing


@pytest.fixture
def action(tmp_path: Path):
    """Runs the action's script on two recordings, of which the second takes twice as long."""
    sides = []
    for name, length in (("before", 100), ("after", 200)):
        (tmp_path / name).mkdir()
        events = [
            event
            for n in range(8)
            for event in (
                traces.step(n, 10 * length * n, 10 * length),
                traces.launched(
                    10 * length * n + 1, traces.kernel("gemm", 10 * length * n + 20, 5 * length)
                ),
            )
        ]
        sides.append(traces.write(tmp_path / name, events))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sightline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sightline "$@"\n')
    (programs / "gh").write_text(
        '#!/bin/sh\nprintf "%s " "$@" | tr "\\n" " " >>"$TOLD"; echo >>"$TOLD"\n'
        'case "$*" in *paginate*) printf "%s" "$OWN" ;; esac\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)

    def run(**environment: str) -> tuple[int, str, list[str]]:
        done = subprocess.run(
            ["bash", ACTION / "compare.sh"],
            env={
                **os.environ,
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "BEFORE": f"{sides[0]}\n",
                "AFTER": f"\n{sides[1]}\n",
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
                "GITHUB_REPOSITORY": "ann/slow",
                "TMPDIR": str(tmp_path),
                "TOLD": str(tmp_path / "told"),
                "OWN": "",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        told = tmp_path / "told"
        summary = tmp_path / "summary"
        return (
            done.returncode,
            summary.read_text() if summary.exists() else done.stderr,
            told.read_text().splitlines() if told.exists() else [],
        )

    return run


def test_a_pull_request_is_told_and_the_gate_fails_the_step(action):
    code, summary, told = action(FAIL_ON="step_ns > 3%", GH_TOKEN="t", PULL_REQUEST="7")
    assert code == 1, summary
    assert summary.startswith("<!-- sightline compare -->\n### sightline")
    assert "Slower" in summary
    assert "--method POST repos/ann/slow/issues/7/comments" in told[-1]


def test_the_comment_of_an_earlier_run_is_replaced(action):
    _, _, told = action(GH_TOKEN="t", PULL_REQUEST="7", OWN="99\n")
    assert "--method PATCH repos/ann/slow/issues/comments/99" in told[-1]


def test_without_a_token_nobody_is_told_and_no_answer_is_an_error(action):
    code, summary, told = action()
    assert (code, told) == (0, [])
    assert "step" in summary
    assert action(BEFORE="/nowhere/trace.json")[0] == 2


def test_the_problem_matcher_reads_what_findings_prints():
    (task,) = json.loads((ROOT / "packaging/vscode/tasks.json").read_text())["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    recording = "lab/cpu-sampling/recorded/sampled-baseline.speedscope.json"
    words = [recording if "input:" in word else word for word in task["args"]]
    done = subprocess.run(
        [sys.executable, "-m", "sightline", *words], cwd=ROOT, capture_output=True, text=True
    )
    found = [re.fullmatch(pattern["regexp"], line) for line in done.stdout.splitlines()]
    assert found
    assert all(found)
    assert found[0][pattern["file"]] == "baseline.py"
    assert found[0][pattern["line"]] == "24"
    assert found[0][pattern["code"]] == "hot-function"


def test_every_command_has_a_man_page_in_an_sdist(tmp_path, monkeypatch):
    pytest.importorskip("argparse_manpage")
    from sightline.doors.cli.main import command_names

    backend = load_script("build_backend")
    monkeypatch.setattr(backend, "MAN_PAGES", tmp_path / "man")
    (tmp_path / "man").mkdir()
    (tmp_path / "man" / "sightline-gone.1").touch()
    backend.write_man_pages()
    pages = {path.name for path in (tmp_path / "man" / "man1").iterdir()}
    assert pages == {"sightline.1", *(f"sightline-{name}.1" for name in command_names())}
    assert not (tmp_path / "man" / "sightline-gone.1").exists()
