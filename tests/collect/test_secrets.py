"""Secrets of a recorded command line are nowhere in what a recording leaves, nor in its views."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.collect.watchers import _hide_commands

SECRET = "hunter2hunter2"
WORDS = [
    "--token", SECRET, f"--api-key={SECRET}", "-p", SECRET, "-H", f"Authorization: Bearer {SECRET}",
    f"https://eva:{SECRET}@example.org", f"ghp_{SECRET}{SECRET}", f"positional-{SECRET}",
]  # fmt: skip
PROGRAM = "import sys, time\nend = time.time() + 1.0\nwhile time.time() < end: sum(range(1000))\n"


def find_secret(folder: Path) -> list[str]:
    """Files below a folder that hold it, packed or not."""
    return [str(p) for p in folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]


@pytest.mark.parametrize("words", [[], ["--backend", "cpu"]], ids=["plain", "cpu"])
def test_recording_of_a_command_with_secrets(tmp_path: Path, words: list[str]) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "SIGHTLINE_CACHE": str(tmp_path / "cache"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "sightline.cli.main"]
    record = [*command, "run", *words, "-o", "run", "--", sys.executable, str(program), *WORDS]
    done = subprocess.run(record, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0
    assert SECRET.encode() not in done.stderr + done.stdout
    run = tmp_path / "run.sightline"
    for view in (
        ["report", run, "-o", "page.html"],
        ["report", run, "-o", "page.json"],
        ["import", run, "-o", "kept.sightline"],
        ["flame", run, "-o", "flame.html"],
        ["flame", run, "-o", "flame.folded"],
        ["export", run, "--to", "csv", "-o", "tables"],
    ):
        seen = subprocess.run(
            [*command, *map(str, view)], cwd=tmp_path, env=env, capture_output=True, check=False
        )
        assert seen.returncode in (0, 2)
        assert SECRET.encode() not in seen.stderr + seen.stdout
    assert find_secret(tmp_path) == []


def test_root_frames_of_py_spy_lose_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "cpu.speedscope.json"
    frames = [{"name": f'process 7:"python train.py {" ".join(WORDS)}"'}, {"name": "forward"}]
    path.write_text(
        json.dumps({"shared": {"frames": frames}, "profiles": [{"name": "MainThread"}]})
    )
    assert _hide_commands(path) is None
    assert find_secret(tmp_path) == []
    names = [f["name"] for f in json.loads(path.read_text())["shared"]["frames"]]
    assert names[1] == "forward"
    assert names[0].startswith("process 7:python train.py --token …")


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    env = {**os.environ, "SIGHTLINE_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "sightline.cli.main", "run", "--", "/no/such", *WORDS]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode != 0
    assert SECRET.encode() not in done.stderr
    assert find_secret(tmp_path) == []
