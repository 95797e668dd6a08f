"""A user's script under the strictest type checkers: public names are typed, and as documented."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from support.places import ROOT
from support.scripts import load_script

SCRIPT = '''
"""What a user writes: every public name, with the types that the documentation says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import sightline as sl
from sightline.testing import assert_silent, open_rows


def read(path: Path) -> float:
    run: sl.Session = sl.open(path, window="steady")
    found: list[sl.Finding] = run.findings()
    first: sl.Finding = found[0]
    gain: int | None = first.gain_ns
    frame: pl.DataFrame = run.ask("breakdown")
    lazy: pl.LazyFrame = run.scan("device_ops")
    report: dict[str, Any] = run.report()
    changed: dict[str, Any] = run.compare(sl.open([path, str(path)]))
    page: str = sl.explain(first.rule) + run.explain(first)
    rows: list[dict[str, Any]] = run.breakdown().to_rows()
    run.flame("flame.svg", order="why").plot()
    run.timeline().to_pandas()
    sl.save(run, "kept.sightline")
    print(gain, frame, lazy, report, changed, page, rows)
    return first.gain_pct or 0.0


def careful(path: Path) -> None:
    try:
        read(path)
    except (sl.MissingDataError, sl.DamagedError, sl.InputError, sl.SightlineError) as error:
        print(error.what, error.why, error.hint)


@sl.annotate("train")
def train() -> None:
    with sl.annotate("step"):
        sl.mark("begin")
    sl.step()
    with sl.profile("run", schedule="1:1:3"):
        pass
    handler = sl.trace_handler("runs", keep=2)
    print(handler)


def test_rows(tmp_path: Path) -> None:
    run = open_rows(tmp_path, device_ops=[{"start_ns": 0, "end_ns": 1}])
    assert_silent(run, "gpu-idle")
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_the_page_names_what_is_public() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    errors = {name for name in sightline.__all__ if name.endswith("Error")}
    assert [n for n in sightline.__all__ if n not in errors and f"`{n}`" not in page] == []


@pytest.mark.campaign
def test_mypy_strict(script: Path) -> None:
    """By the installed package's own annotations, as a user's mypy sees them."""
    words = ("--strict", "--cache-dir", str(script.parent / "cache"), str(script))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=script.parent,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    own = [line for line in done.stdout.splitlines() if line.startswith("script.py")]
    assert own == []
    assert "script.py" in done.stdout or done.returncode == 0, done.stdout + done.stderr


@pytest.mark.campaign
def test_pyright(script: Path) -> None:
    packages = load_script("npm_packages")
    try:
        node, folder = packages.fetch_package("pyright")
    except packages.NoPackageError as error:
        pytest.skip(str(error))
    assert importlib.util.find_spec("polars") is not None
    (script.parent / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{ROOT / "src"}"], "typeCheckingMode": "strict"}}'
    )
    done = subprocess.run(
        [node, str(folder / "index.js"), "--pythonpath", sys.executable, str(script)],
        cwd=script.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
