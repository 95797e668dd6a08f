"""The cell magic, with a stand-in for IPython's shell; the example notebook, with the real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import sightline
from sightline.record.inline.python_stacks import PythonStacks
from support.places import EXAMPLES


class _Shell:
    """What the magic uses of IPython's InteractiveShell: two methods and the user's names."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Callable[[str, Any], None]] = {}

    def register_magic_function(
        self, function: Callable[[str, Any], None], kind: str, name: str
    ) -> None:
        assert kind == "cell"
        self.magics[name] = function

    def run_cell(self, cell: str | CodeType) -> None:
        exec(compile(cell, "<cell>", "exec") if isinstance(cell, str) else cell, self.user_ns)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> _Shell:
    """With what was displayed in its names as `shown`; without PyTorch, which would record."""
    made = _Shell()
    display = ModuleType("IPython.display")
    made.user_ns["shown"] = []
    display.display = made.user_ns["shown"].append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    sightline.load_ipython_extension(made)
    return made


# It runs by the processor's time, so that a busy machine makes it no shorter.
CELL = """
import time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
burn(0.3)
"""


def test_a_cell_is_sampled_and_kept(shell: _Shell, tmp_path: Path) -> None:
    shell.magics["sightline"](f"run -o {tmp_path}/mine", CELL)
    run = shell.user_ns["run"]
    assert (tmp_path / "mine.sightline").is_dir()
    flame = shell.user_ns["shown"][-1]
    assert flame.to_rows()[0]["name"].startswith("burn (")
    assert run.rows("stack_weights") > 0
    assert "pytest" not in repr(flame.to_rows()), "who called the cell is not part of it"


SLEEPS = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
burn(0.4)
time.sleep(0.8)
"""


@pytest.mark.timing
@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no such clock here")
def test_sleep_is_no_time_of_the_cpu(shell: _Shell, tmp_path: Path) -> None:
    """And a line is where the cell was, not where its function begins."""
    cell = compile(SLEEPS, "/tmp/ipykernel_7/8.py", "exec")
    shell.magics["sightline"](f"run -o {tmp_path}/mine", cell)
    run = shell.user_ns["run"]
    hot = next(f for f in run.findings() if f.rule == "hot-function")
    assert re.search(r"is in burn \(8.py:[45]\)", hot.summary), hot.summary
    (waits,) = (f for f in run.findings() if f.rule == "waiting-line")
    assert "<module> (8.py:8)" in waits.summary
    assert waits.cost is not None and waits.cost.amount >= 600_000_000


def test_without_a_clock_of_the_thread_all_samples_stand_together(
    shell: _Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(time, "pthread_getcpuclockid", raising=False)
    shell.magics["sightline"](f"run -o {tmp_path}/mine", CELL)
    (file,) = (tmp_path / "mine.sightline").iterdir()
    assert file.name == "cell.speedscope.json"


def test_frames_that_lead_into_the_cell_are_left_out(tmp_path: Path) -> None:
    """Those of packages that are named, as far as they come first."""
    stacks = PythonStacks()
    lead = [("run_cell", "/lib/IPython/core/interactiveshell.py", 3)] * 2
    cell = ("<module>", "/tmp/ipykernel_7/8.py", 1)
    show = ("display", "/lib/IPython/display.py", 5)
    stacks.weights = {(*lead, cell): 5, (*lead, cell, show): 7, tuple(lead): 9}
    stacks.write(tmp_path / "x.speedscope.json", without=("IPython", "ipykernel"))
    (profile,) = json.loads((tmp_path / "x.speedscope.json").read_text())["profiles"]
    assert (profile["samples"], profile["weights"]) == ([[0], [0, 1]], [5, 7])


def test_a_cell_that_is_over_at_once(shell: _Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.magics["sightline"]("", "1")
    assert "too short a time" in capsys.readouterr().err


def test_what_cannot_be_asked_ends_no_kernel(
    shell: _Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in ("two words", "3x", "--what"):
        shell.magics["sightline"](line, "1")
        assert "sightline: " in capsys.readouterr().err
    assert shell.user_ns["shown"] == []


def test_a_thread_that_does_nothing_else_has_no_stacks() -> None:
    with PythonStacks(period_s=60.0) as stacks:
        time.sleep(0)
    assert stacks.weights == {}


@pytest.mark.timing
def test_the_example_notebook_runs(tmp_path: Path) -> None:
    """Each cell, in a kernel of its own."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "altair", "vl_convert"):
        pytest.importorskip(needed)
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute()
    outputs = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    pages = [data["text/html"] for data in outputs if "text/html" in data]
    assert sum(page.startswith('<div class="sightline">') for page in pages) >= 6
    assert any("read_batch" in page for page in pages)
    assert any("image/svg+xml" in data for data in outputs)


# What marimo's own page would be sent of each cell.
SHOWN_BY_MARIMO = """
import json, runpy, sys
from marimo._output.formatting import get_formatter
outputs, _ = runpy.run_path(sys.argv[1])["app"].run()
print(json.dumps([get_formatter(o)(o) for o in outputs if o is not None]))
"""


def test_the_marimo_example_runs() -> None:
    """Each cell, in an app of its own; what it shows is ours, in marimo's own words."""
    pytest.importorskip("marimo")
    done = subprocess.run(
        [sys.executable, "-c", SHOWN_BY_MARIMO, str(EXAMPLES / "marimo_report.py")],
        capture_output=True,
        text=True,
        env={**os.environ},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert [kind for kind, _ in shown] == ["text/html"] * 3
    assert all('<div class="sightline">' in page for _, page in shown)
    assert "Waiting for the DataLoader" in shown[0][1]
