"""A program does the same whether it is recorded or not, whatever it gives to sightline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from support.recorders import recorder_kind  # noqa: F401  # a fixture

PROGRAM = """
import sightline as sl


class Odd:
    def __str__(self): return "odd"
    def __repr__(self): raise RuntimeError("no")

loop = []
loop.append(loop)
for name in (5, None, b"bytes", ["a"], {}, Odd(), "\\ud800"):
    with sl.annotate(name):
        pass
    sl.mark(name)
for payload in ({("a", "b"): 1}, loop, Odd(), {1, 2}, float("nan")):
    with sl.annotate("payload", payload):
        pass
    sl.mark("payload", payload)
sl.annotate(5)(lambda: None)()
print("done")
"""


@pytest.mark.usefixtures("recorder_kind")
@pytest.mark.parametrize("recorded", [False, True])
def test_anything_may_be_a_name_and_a_payload(tmp_path: Path, recorded: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, str(program)]
    if recorded:
        run = ["run", "--no-report", "-o", str(tmp_path / "run"), "--"]
        words = [sys.executable, "-m", "sightline.doors.cli.main", *run, *words]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    if recorded:
        names = sightline.open(str(tmp_path / "run.sightline")).table("host_ops")["name"].to_list()
        assert {"5", "None", "odd", "payload"} <= set(names)


@pytest.mark.timing
def test_orphans_of_the_program_are_let_go(tmp_path: Path) -> None:
    """They come to sightline; as zombies they would fill the system's table of processes."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, time\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "time.sleep(0.5)\n"
        "parent = str(os.getppid())\n"
        "stats = []\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    try: stats.append(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[:2])\n"
        "    except OSError: pass\n"
        "print(sum(s == ['Z', parent] for s in stats))\n"
    )
    run = ["run", "--no-report", "-o", str(tmp_path / "run"), "--", sys.executable, str(program)]
    words = [sys.executable, "-m", "sightline.doors.cli.main", *run]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr
