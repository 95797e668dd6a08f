"""`sightline cluster`: a demo in ten seconds, a file for a site, a service that ends well."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from sightline.cluster.config import read_config
from sightline.errors import InputError
from support.command import sightline

pytest.importorskip("duckdb")
COMMAND = [sys.executable, "-m", "sightline.doors.cli.main", "cluster"]


def begin(*words: str, cwd: Path) -> tuple[subprocess.Popen[str], str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def end(child: subprocess.Popen[str]) -> int:
    child.send_signal(signal.SIGTERM)
    code = child.wait(60)
    assert child.stdout is not None
    child.stdout.close()
    return code


@pytest.mark.timing
def test_the_demo_is_there_in_ten_seconds(tmp_path):
    child, url = begin("demo", cwd=tmp_path)
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        base, _, token = url.partition("/enter?")
        assert b"Sign in as you" in opener.open(url, timeout=10).read()
        text = opener.open(f"{base}/enter", token.encode(), timeout=10).read().decode()
        spent = psutil.Process(child.pid).cpu_times()
        assert spent.user + spent.system < 10  # of a machine that has nothing else to do
        assert "GPUs of a job did nothing" in text
        for page in ("waste", "owners", "nodes", "compare"):
            assert opener.open(f"{base}/{page}", timeout=10).status == 200
    finally:
        assert end(child) == 0


def test_a_sacct_that_does_not_answer_is_no_source(tmp_path, monkeypatch):
    """It was written down as one, and each five minutes failed."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "sacct").write_text("#!/bin/sh\necho 'sacct: error: no slurmdbd' >&2\nexit 1\n")
    (fake / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.setenv("PROMETHEUS_URL", "http://127.0.0.1:1")
    place = tmp_path / "cluster.toml"
    done = sightline("cluster", "init", str(place))
    assert done.code == 0
    assert "no source was found here" in done.out
    assert "does not answer: sacct: error: no slurmdbd" in done.err
    assert read_config(place).sources.slurm is False


def test_a_site_is_found_and_served(tmp_path, monkeypatch):
    """A scheduler that answers, its jobs on the pages, and a token that was shown once."""
    fake = tmp_path / "bin"
    fake.mkdir()
    row = (
        "4711|4711|train|ada|physics|c9|gpu|COMPLETED|2026-11-01T10:00:00|2026-11-01T13:00:00|10800"
    )
    head = "JobID|JobIDRaw|JobName|User|Account|Cluster|Partition|State|Start|End|ElapsedRaw"
    (fake / "sacct").write_text(
        f"#!/bin/sh\ncase \"$*\" in *--json*) exit 1;; esac\nprintf '%s\\n' '{head}' '{row}'\n"
    )
    (fake / "scontrol").write_text("#!/bin/sh\necho 'ClusterName             = c9'\n")
    for program in fake.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.setenv("PROMETHEUS_URL", "http://127.0.0.1:1")
    place = tmp_path / "cluster.toml"
    done = sightline("cluster", "init", str(place))
    assert done.code == 0, done.err
    assert "Cluster c9: Slurm's accounting (sacct)" in done.out
    assert place.stat().st_mode & 0o077 == 0
    tokens = dict(re.findall(r"Token of (\w+), shown once: (\S+)", done.out))
    assert all(token not in place.read_text() for token in tokens.values())
    config = read_config(place)
    assert (config.cluster, config.sources.slurm) == ("c9", True)
    assert sightline("cluster", "init", str(place)).code == 2  # it is there already
    place.write_text(place.read_text().replace("127.0.0.1:8270", "127.0.0.1:0"))
    child, url = begin("serve", str(place), cwd=tmp_path)
    try:
        head = {"Authorization": f"Bearer {tokens['admin']}"}
        deadline = time.monotonic() + 30
        while True:
            asked = urllib.request.Request(f"{url}/api/jobs", headers=head)
            found = json.loads(urllib.request.urlopen(asked, timeout=10).read())
            if found["count"]:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (job,) = found["jobs"]
        assert (job["job_id"], job["user"], job["cluster"]) == ("4711", "ada", "c9")
    finally:
        assert end(child) == 0
    assert (tmp_path / "store" / "jobs" / "cluster=c9").is_dir()


def test_a_file_that_cannot_be_used_is_an_error_with_a_reason(tmp_path):
    place = tmp_path / "cluster.toml"
    with pytest.raises(InputError):
        read_config(place)
    for text, why in (
        ("cluster = ", "not TOML"),
        ('cluster = "c1"\nlissten = "x"', "did you mean listen"),
        ('cluster = "c1"\n[access]\nheader = "X"', "counts only from"),
    ):
        place.write_text(text)
        done = sightline("cluster", "serve", str(place))
        assert done.code == 2
        assert why in done.said


def test_a_token_is_printed_with_its_hash():
    import hashlib

    done = sightline("cluster", "token")
    digest = hashlib.sha256(done.out.strip().encode()).hexdigest()
    assert digest in done.err
