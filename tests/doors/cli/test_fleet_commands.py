"""`sightline daemon` and `sightline capture` as a person types them: started, asked, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from support.asking import Program, place_sockets
from support.command import sightline


@contextmanager
def run_daemon(sockets: Path, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", "daemon", "--socket", str(sockets / "s"),
         "--door", str(sockets), "--keep", str(folder / "kept"), *words],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "listens at" in line, line
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.timing
def test_a_daemon_and_who_listens(tmp_path: Path) -> None:
    with place_sockets() as sockets, run_daemon(sockets, tmp_path) as process:
        asked = ("capture", "--socket", str(sockets / "s"))
        nobody = sightline(*asked, "--who")
        assert "No process listens. Start the job with KINETO_USE_DAEMON=1" in nobody.out
        refused = sightline(*asked, "-o", str(tmp_path / "c"))
        assert refused.code == 2
        assert "no process listens" in refused.err
        assert not (tmp_path / "c.sightline").exists()  # nothing is left of it
        program = Program(sockets, tmp_path, rank=3, env={"SLURM_JOB_ID": "4711"})
        try:
            while not (known := json.loads(sightline(*asked, "--who", "--json").out))[0][
                "listeners"
            ]:
                pass
            assert known[0]["listeners"][0]["job"] == "4711"
            screen = sightline(*asked, "--who").out
            assert "rank 3" in screen
            assert "job 4711" in screen
            assert all(len(line) <= 80 for line in screen.splitlines())
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.process.wait()
            assert program.process.stdout is not None
            program.process.stdout.close()
        # What was asked for of it: at most 40 MB (psutil: of the process alone).
        assert psutil.Process(process.pid).memory_info().rss < 40_000_000
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert sorted(p.name for p in sockets.iterdir() if "client" not in p.name) == []


@pytest.mark.timing
def test_triggers_by_name(tmp_path: Path) -> None:
    with (
        place_sockets() as sockets,
        run_daemon(sockets, tmp_path, "--trigger", "policy") as process,
    ):
        asked = ("capture", "--socket", str(sockets / "s"), "--fire")
        assert sightline(*asked, "policy").code == 0
        assert process.stderr is not None
        assert "policy was fired: no process listens" in process.stderr.readline()
        done = sightline(*asked, "webhook")
        assert done.code == 2
        assert "no trigger webhook is armed" in done.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["capture", "--for", "10min"], "100ms to 60s"),
        (["capture", "--steps", "5000"], "steps are 1 to 1,000"),
        (["capture", "--ranks", "1,x"], "are not ranks"),
        (["capture", "--hosts", "n1"], "none was given"),
        (["capture", "--socket", "/nowhere/s"], "no daemon listens at"),
        (["daemon", "--trigger", "webhok"], "webhook"),
        (["daemon", "--listen", "0.0.0.0"], "must know a token"),
        (["daemon", "--every", "1s", "--history", "h"], "a period must be 30s or longer"),
        (["daemon", "--every", "10min"], "--history DIR"),
        (["daemon", "--history", "h"], "--history has nothing to do"),
        (["daemon", "--counts"], "--counts has nothing to do"),
        (["daemon", "--token-file", "t"], "nothing listens on the network"),
        (["daemon", "--certificate", "c", "--key", "k"], "nothing listens on the network"),
        (["daemon", "--ca", "c"], "a daemon that asks others must itself listen on the network"),
        (["capture", "--fan-out", "1", "--socket", "s"], "a daemon can ask 2 to 64 nodes"),
        (["capture", "--fan-out", "3", "--socket", "s"], "over TLS only"),
        (["daemon", "--allow-user", "nobody-of-this-name"], "there is no user"),
    ],
)
def test_what_is_refused(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SIGHTLINE_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    more = []
    with place_sockets() as sockets:
        if words[0] == "daemon":
            more = ["--socket", str(sockets / "s"), "--door", str(sockets), "--keep", "k"]
        done = sightline(*words, *more)
    assert done.code == 2, done.err
    assert problem in " ".join((done.out + done.err).split())
    assert not list(tmp_path.glob("capture*"))
