"""`sightline.listen()`: programs that ask for orders themselves, with PyTorch and without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sightline as sl
from sightline.record.collect import kineto_door
from sightline.record.collect.kineto_door import Order, find_client, take_trace, tell_clients
from sightline.record.inline.listen import name_trace
from sightline.record.probe.processes import Root
from support.asking import place_sockets

pytestmark = pytest.mark.timing
PLAIN = """\
import time
import sightline
def wait_for_disk(): time.sleep(0.05)
sightline.listen(poll_s=0.2)
print("ready", flush=True)
while True: wait_for_disk()
"""
TORCH = """\
import time
import torch
import sightline
sightline.listen(poll_s=0.2)
print("ready", flush=True)
a = torch.randn(64, 64)
while True: a = torch.tanh(a @ a); time.sleep(0.002)
"""


@contextmanager
def run(code: str, folder: Path, sockets: Path) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "KINETO_ONDEMAND_TRACE_DIR": str(folder), "OMP_NUM_THREADS": "1",
           "KINETO_IPC_SOCKET_DIR": str(sockets)}  # fmt: skip
    env.pop("KINETO_USE_DAEMON", None)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env, cwd=folder
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def record(process: subprocess.Popen[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kineto_door, "QUIET_S", 0.1)
    monkeypatch.setattr(kineto_door, "LATE_S", 0.1)
    while (client := find_client(process.pid)) is None:
        time.sleep(0.02)
    root, order = Root(process.pid), Order("sightline-x", 0.5, 0, ("shapes",))
    told, _ = tell_clients([client], order, most_s=10)
    assert [one.pid for one in told] == [process.pid]
    target = folder / "rank0.json"
    take_trace(client, root, order.name, target, most_s=20)
    assert process.poll() is None
    return target


def test_a_program_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place_sockets() as sockets, run(PLAIN, tmp_path, sockets) as process:
        trace = record(process, tmp_path, monkeypatch)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["rank0.json"]
    names = sl.open(str(trace)).table("host_ops").get_column("name")
    assert any("wait_for_disk" in name for name in names)
    events = json.loads(trace.read_text())["traceEvents"]
    spent = sum(e["dur"] for e in events if "wait_for_disk" in e["name"])
    assert 300_000 < spent < 600_000  # nearly all of 0.5 s, in µs


def test_a_program_that_has_pytorch_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    with place_sockets() as sockets, run(TORCH, tmp_path, sockets) as process:
        trace = record(process, tmp_path, monkeypatch)
    names = sl.open(str(trace)).table("host_ops").get_column("name")
    assert (names == "aten::tanh").sum() > 10  # of the main thread, recorded by another


def test_a_signal_records_where_the_program_is(tmp_path: Path) -> None:
    with place_sockets() as sockets, run(PLAIN, tmp_path, sockets) as process:
        process.send_signal(signal.SIGUSR2)
        while not (made := list(tmp_path.glob("capture-*[0-9].json"))):
            assert process.poll() is None
            time.sleep(0.05)
        assert any("wait_for_disk" in n for n in sl.open(str(made[0])).table("host_ops")["name"])


@pytest.mark.parametrize(
    "asked",
    ["/etc/x.json", "/tmp/../etc/x.json", "x.json", "/tmp/x", "/tmp/.json", "/tmp/a/x.json"],
)
def test_traces_are_only_in_the_own_folder(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETO_ONDEMAND_TRACE_DIR", raising=False)
    assert name_trace(asked) is None
    assert name_trace("/tmp/x.json") == f"/tmp/x_{os.getpid()}.json"
