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
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

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


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Own, Path]]:
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
    with run_service(tmp_path / "service") as own:
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


def test_three_jobs_appear_with_their_figures(slurm):
    own, folder = slurm
    scripts = {"quick": "sleep 2", "fails": "sleep 1; exit 3", "computes": "sleep 3"}
    numbers = {}
    for name, body in scripts.items():
        done = subprocess.run(
            ["sbatch", "--parsable", "-J", name, "-o", "/dev/null", "-n1", "--chdir", str(folder)],
            input=f"#!/bin/sh\n{body}\n",
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        numbers[name] = done.stdout.strip()
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
