"""A real slurmctld and slurmd run three jobs, and the service hears of each from its prolog.

Skipped where Slurm is not installed (Debian: slurmctld, slurmd, slurm-client) or cannot start, as
in a container without the rights that slurmd wants; the reason is said.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from sightline.cluster.config import Tracing
from sightline.doors.http.running import make_report
from support.asking import place_sockets
from support.cluster_service import TOKENS, Own, run_service
from support.places import ROOT

pytestmark = pytest.mark.timing
TELL = ROOT / "examples" / "slurm" / "slurmctld-tell.sh"
START_S = 30.0


def find_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def find_program(*names: str) -> str:
    path = f"{os.environ['PATH']}:/usr/sbin"
    found = next((p for name in names if (p := shutil.which(name, path=path))), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


@contextlib.contextmanager
def run_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> Iterator[tuple[Own, Path]]:
    """Slurm and a service that its prolog tells of jobs; `more` is the service's."""
    control = find_program("slurmctld")
    daemon = find_program("slurmd")
    step = find_program("slurmstepd")
    for name in ("sbatch", "scontrol", "curl"):
        find_program(name)
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    plugins = os.environ.get("SLURM_PLUGINS")
    conf = tmp_path / "slurm.conf"
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    with run_service(tmp_path / "service", **more) as own:
        own.connect().close()
        env = tmp_path / "sightline.env"
        env.write_text(
            f"SIGHTLINE_URL={own.service.server.url}\nSIGHTLINE_PUSH_TOKEN={TOKENS['ingest']}\n"
            f"export SLURM_CONF={quote(str(conf))} PATH={quote(os.environ['PATH'])} "
            f"LD_LIBRARY_PATH={quote(os.environ.get('LD_LIBRARY_PATH', ''))}\n"
        )
        tell = tmp_path / "tell.sh"
        tell.write_text(f"#!/bin/sh\nSIGHTLINE_ENV={quote(str(env))} exec sh {quote(str(TELL))}\n")
        tell.chmod(0o755)
        conf.write_text(
            f"""ClusterName=c1
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={find_port()}
SlurmdPort={find_port()}
StateSaveLocation={tmp_path}/state
SlurmdSpoolDir={tmp_path}/spool
SlurmctldPidFile={tmp_path}/ctld.pid
SlurmdPidFile={tmp_path}/slurmd.pid
SlurmctldLogFile={tmp_path}/ctld.log
SlurmdLogFile={tmp_path}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SchedulerParameters=sched_interval=2
PrologSlurmctld={tell}
EpilogSlurmctld={tell}
{f"PluginDir={plugins}" if plugins else ""}
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=10 State=UP
"""
        )
        monkeypatch.setenv("SLURM_CONF", str(conf))
        running = [
            subprocess.Popen([control, "-D", "-f", str(conf), "-i", "-c"]),
            subprocess.Popen([daemon, "-D", "-f", str(conf), "-d", step, "-N", host]),
        ]
        try:
            wait_for_node(running, tmp_path)
            yield own, tmp_path
        finally:
            for one in running:
                with contextlib.suppress(ProcessLookupError):
                    one.send_signal(signal.SIGTERM)
            for one in running:
                try:
                    one.wait(20)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()


def wait_for_node(running: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Until the node is idle; the test is skipped where it will not be, with what the logs say."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        said = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout
        if said.strip() == "idle":
            return
        if any(one.poll() is not None for one in running):
            break
        time.sleep(0.3)
    logs = [p.read_text().splitlines()[-2:] for p in folder.glob("*.log")]
    pytest.skip(f"Slurm cannot start here: {logs}")


def submit(name: str, body: str, folder: Path) -> str:
    """The number of a job of one task."""
    done = subprocess.run(
        ["sbatch", "--parsable", "-J", name, "-o", str(folder / name), "-n1", "--chdir",
         str(folder)],
        input=f"#!/bin/sh\n{body}\n",
        text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Own, Path]]:
    with run_slurm(tmp_path, monkeypatch) as made:
        yield made


def test_three_jobs_appear_with_their_figures(slurm):
    own, folder = slurm
    scripts = {"quick": "sleep 2", "fails": "sleep 1; exit 3", "computes": "sleep 3"}
    numbers = {name: submit(name, body, folder) for name, body in scripts.items()}
    deadline = time.monotonic() + 90
    while True:
        found = {
            job["job_id"]: job
            for job in json.loads(own.ask("/api/jobs?most=10", "admin").body)["jobs"]
        }
        if len(found) == 3 and all(job["end_ns"] for job in found.values()):
            break
        assert time.monotonic() < deadline, (found, (folder / "ctld.log").read_text()[-2000:])
        time.sleep(0.5)
    for name, number in numbers.items():
        job = found[number]
        assert job["state"] == ("failed" if name == "fails" else "completed")
        assert (job["user"], job["partition"], job["nodes"]) == (getpass.getuser(), "main", 1)
        assert job["hosts"] == [socket.gethostname().split(".")[0]]
        seconds = job["duration_ns"] / 1e9
        assert 1 <= seconds <= 60
        assert job["core_hours"] == pytest.approx(job["cpus"] * seconds / 3600)


TRAIN = """\
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad(); model(torch.randn(16, 64)).sum().backward(); optimizer.step()
"""


@pytest.mark.campaign
def test_from_a_wasted_job_to_its_line(tmp_path, monkeypatch):
    """A rule finds a job of Slurm, it is recorded for 2 s, and its page links the report."""
    pytest.importorskip("torch")
    monkeypatch.setattr("sightline.subjects.jobs.judges._limits.LEAST_S", 5.0)
    program = str(Path(sys.executable).with_name("sightline"))
    with place_sockets() as sockets:
        door = str(sockets / "daemon.sock")
        length = ("--for", "2s", "--stacks")
        command = (
            program,
            "capture",
            "--job",
            "{job}",
            "--socket",
            door,
            *length,
            "-o",
            "{output}",
        )
        tracing = Tracing(command, ("job-low-cpu-load",))
        with (
            run_slurm(tmp_path, monkeypatch, tracing=tracing, make_report=make_report) as slurm,
            run_daemon(program, door, str(sockets), tmp_path),
        ):
            own, folder = slurm
            (folder / "train.py").write_text(TRAIN)
            env = f"KINETO_USE_DAEMON=1 KINETO_IPC_SOCKET_DIR={sockets} OMP_NUM_THREADS=1"
            body = f"{env} {quote(sys.executable)} {quote(str(folder / 'train.py'))}"
            number = submit("train", body, folder)
            try:
                page, trace = follow(own, number, program, door)
            finally:
                subprocess.run(["scancel", number], check=False)
    assert trace.state == "done", trace.note
    assert (trace.by, trace.why) == ("rule", "job-low-cpu-load")
    assert f"/trace?n={trace.id}" in page
    traces = tmp_path / "service/store/traces"
    assert (traces / f"{trace.id}.html").stat().st_size > 100_000
    # The line is in the stacks at any load; which function a finding names first is the machine's.
    stacks = tmp_path / "stacks.folded"
    recording = str(traces / f"{trace.id}.sightline")
    subprocess.run([program, "flame", recording, "-o", str(stacks)], check=True)
    lines = [line for line in stacks.read_text().splitlines() if "train.py" in line]
    assert any("aten::" in line for line in lines)
    said = subprocess.run([program, "findings", "--all", recording], stdout=subprocess.PIPE)
    assert b"operator" in said.stdout


def follow(own: Own, number: str, program: str, door: str) -> tuple[str, Any]:
    """The job's page and its recording, once that ended; its node says that it does little."""
    host = socket.gethostname().split(".")[0]
    deadline = time.monotonic() + 120
    while True:
        assert time.monotonic() < deadline
        time.sleep(0.5)
        now = int(time.time())
        line = f"cpu_load,hostname={host},type=node value=0.01 {now}"
        assert own.ask("/write", "ingest", "POST", line.encode()).status == 204
        live = [known.key for known in own.service.store.list_live()]
        who = subprocess.run(
            [program, "capture", "--who", "--json", "--socket", door], capture_output=True
        )
        if not live or f'"job": "{number}"'.encode() not in who.stdout:
            continue  # the program has not begun to train: there is nobody to record
        own.service.running.refresh(own.service.tracer.heed)
        traces = own.service.notes.list_traces(live[0])
        if traces and traces[0].state != "asked":
            return own.ask(f"/job?id={live[0]}", "admin").body.decode(), traces[0]


@contextlib.contextmanager
def run_daemon(program: str, door: str, programs: str, folder: Path) -> Iterator[None]:
    command = [program, "daemon", "--socket", door, "--door", programs, "--keep",
               str(folder / "captures")]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait(30)
