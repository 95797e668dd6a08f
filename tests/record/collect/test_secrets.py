"""Secrets of a recorded command line are nowhere in what a recording leaves, nor in its views."""

from __future__ import annotations

import base64
import contextlib
import gzip
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sightline.core.page_text import decode_text, encode_bytes
from sightline.record.collect.watchers import _prepare
from support import recording
from support.campaigns import sample
from support.command import sightline

SECRET = "hunter2hunter2"
WORDS = [
    "--token", SECRET, f"--api-key={SECRET}", "-p", SECRET, f"-p{SECRET}",
    "-H", f"Authorization: Bearer {SECRET}",
    f"https://eva:{SECRET}@example.org", f"ghp_{SECRET}{SECRET}", f"positional-{SECRET}",
]  # fmt: skip
COMMAND = [sys.executable, "-m", "sightline.doors.cli.main"]
# A process that marks, and one below it that has the secret in its own command line.
PYTHON = """
import subprocess, sys, time
import sightline as sl
if sys.argv[1] == "torch":
    import torch
    torch.ones(9).sum()
sleep = [sys.executable, "-c", "import time; time.sleep(0.4)"]
below = subprocess.Popen([*sleep, "--key", sys.argv[2]])
with sl.annotate("work"):
    end = time.time() + 1.0
    while time.time() < end: sum(range(1000))
sl.step()
below.wait()
"""
SHELL = "#!/bin/sh\nn=0\nwhile [ $n -lt 300000 ]; do n=$((n+1)); done\n"
# What is recorded: options of run, and the program.
RECORDED: dict[str, tuple[list[str], str]] = {
    "marks": (["--backend", "torch"], "python"),
    "nothing": (["--backend", "torch"], "shell"),
    "py-spy": (["--backend", "cpu"], "python"),
    "perf": (["--backend", "cpu"], "shell"),
    "nvml": (["--backend", "nvml"], "python"),
    "torch": ([], "torch"),
    "timed out": (["--backend", "cpu", "--timeout", "0.7"], "python"),
}
VARIABLES = {
    "WANDB_API_KEY": SECRET,
    "HF_TOKEN": SECRET,
    "HTTPS_PROXY": f"http://eva:{SECRET}@proxy.example.org:3128",
    "DATABASE_URL": f"postgres://eva:{SECRET}@db/x",
    "NCCL_SECRET": SECRET,
    "CUDA_PASSWORD": SECRET,
    "SLURM_JWT": SECRET,
}
# How the secret is given to the program.
GIVEN: dict[str, Callable[[list[str]], list[str]]] = {
    "flags": lambda program: [*program, *WORDS],
    "addresses": lambda program: [
        *program, f"https://eva:{SECRET}@example.org/x", f"s3://b/k?X-Amz-Signature={SECRET}",
        "-H", f"Cookie: session={SECRET}",
    ],
    "variables before it": lambda program: [
        "env", *(f"{name}={value}" for name, value in VARIABLES.items()), *program,
    ],
    "a shell": lambda program: ["sh", "-c", f"{shlex.join(program)} --password {SECRET}; exit 0"],
    "the environment": lambda program: program,
}  # fmt: skip
KINDS = [(recorded, given) for given in GIVEN for recorded in RECORDED]
VIEWS = (
    ("report", "run.sightline"),
    ("report", "run.sightline", "--json"),
    ("report", "run.sightline", "-o", "page.html"),
    ("report", "run.sightline", "-o", "page.json"),
    ("report", "run.sightline", "-o", "page.md"),
    ("findings", "run.sightline", "--json"),
    ("import", "run.sightline", "-o", "kept.sightline"),
    ("flame", "run.sightline", "-o", "flame.html"),
    ("flame", "run.sightline", "-o", "flame.folded"),
    ("flame", "run.sightline", "-o", "flame.svg"),
    ("stats", "functions", "run.sightline"),
    ("sql", "run.sightline", "SELECT * FROM quality"),
    *(("export", "run.sightline", "--to", to, "-o", f"as-{to}")
      for to in ("csv", "parquet", "chrome", "perfetto")),
    ("doctor", "--json"),
    ("cache",),
    ("report", "run.sightline", "--token", SECRET),
    ("report", f"https://eva:{SECRET}@example.org/run.json"),
)  # fmt: skip


def find_secret(folder: Path) -> list[str]:
    """Files below a folder that hold it, packed or not."""
    return [
        str(p) for p in folder.rglob("*") if p.is_file() and SECRET.encode() in read_unpacked(p)
    ]


def read_unpacked(path: Path) -> bytes:
    """A file's bytes, and those that are packed in it: gzip, Parquet's columns, a page's data."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data += gzip.decompress(data)
    if data[:4] == b"PAR1":
        for column in pl.read_parquet(io.BytesIO(data)).iter_columns():
            data += str(column.unique().to_list()).encode()
    for found in re.findall(rb"[A-Za-z0-9+/]{64,}={0,2}", data):
        with contextlib.suppress(ValueError):
            data += base64.b64decode(found)
    for found in re.findall(rb'<script [^>]*octet-stream"[^>]*>([^<]+)</script>', data):
        unpacker = zlib.decompressobj()
        rest = decode_text(found.decode())
        while rest:  # columns stand one after another
            data += unpacker.decompress(rest)
            rest, unpacker = unpacker.unused_data, zlib.decompressobj()
    return data


@pytest.mark.parametrize(("recorded", "given"), sample(KINDS, 10))
def test_no_secret_is_in_what_a_recording_leaves_nor_in_its_views(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: str, given: str
) -> None:
    options, kind = RECORDED[recorded]
    if kind == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("there is no PyTorch")
    programs, here = tmp_path / "programs", tmp_path / "here"
    programs.mkdir()
    here.mkdir()
    (programs / "train.py").write_text(PYTHON)
    (programs / "solve").write_text(SHELL)
    (programs / "solve").chmod(0o755)
    program = [str(programs / "solve"), SECRET]
    if kind != "shell":
        program = [sys.executable, str(programs / "train.py"), kind, SECRET]
    monkeypatch.chdir(here)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(here / "cache"))
    env = recording.clean(COLUMNS="200", **(VARIABLES if given == "the environment" else {}))
    record = [*COMMAND, "run", *options, "-o", "run", "--", *GIVEN[given](program)]
    done = subprocess.run(record, env=env, capture_output=True, check=False)
    assert (here / "run.sightline").is_dir(), done.stderr
    assert SECRET.encode() not in done.stderr + done.stdout
    for view in VIEWS:
        outcome = sightline(*view)
        assert outcome.code in (0, 2), outcome.err
        assert SECRET not in outcome.out + outcome.err, view
    assert find_secret(here) == []


def test_what_is_packed_is_found(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(f"x {SECRET}")
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(SECRET.encode()))
    pl.DataFrame({"a": [SECRET] * 9}).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "page.html").write_bytes(b"data:," + base64.b64encode(SECRET.encode() * 9))
    secret = encode_bytes(zlib.compress(b"") + zlib.compress(SECRET.encode()))
    element = b'<script type="application/octet-stream" id="page-data">%s</script>'
    (tmp_path / "report.html").write_bytes(element % secret)
    (tmp_path / "clean").write_text("nothing")
    assert len(find_secret(tmp_path)) == 5


def test_a_recorder_that_is_killed_leaves_none(tmp_path: Path) -> None:
    program = tmp_path / "solve"
    program.write_text(SHELL.replace("300000", "1000000"))
    program.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    words = ["--backend", "cpu", "-o", "r", "--", str(program), *WORDS]
    process = recording.start(*words, cwd=here, env=recording.clean(**VARIABLES))
    while not list(here.glob("r.sightline/*.recorded.json")):
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert find_secret(here) == []


def test_root_frames_of_py_spy_lose_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "cpu.speedscope.json"
    frames = [{"name": f'process 7:"python train.py {" ".join(WORDS)}"'}, {"name": "forward"}]
    path.write_text(
        json.dumps({"shared": {"frames": frames}, "profiles": [{"name": "MainThread"}]})
    )
    assert _prepare(path, hide=True, idle=True) is None
    assert find_secret(tmp_path) == []
    names = [f["name"] for f in json.loads(path.read_text())["shared"]["frames"]]
    assert names[1] == "forward"
    assert names[0].startswith("process 7:python train.py --token …")


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    env = {**os.environ, "SIGHTLINE_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "sightline.doors.cli.main", "run", "--", "/no/such", *WORDS]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode != 0
    assert SECRET.encode() not in done.stderr
    assert find_secret(tmp_path) == []
