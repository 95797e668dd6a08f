"""Jobs of Slurm by the cgroups that it has made over the years."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.record.monitor.exporter import Collector
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import GPU, PROCESS, Device, Entity, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.slurm_jobs import SlurmJobs, ask_slurmd, read_cgroup

SLUID = "s5K1KKYAYG5D00"
STEP = f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0\n"


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "4711"),
        ("0::/system.slice/gpu07_slurmstepd.scope/job_4711/step_batch/slurm\n", "4711"),
        ("12:memory:/slurm/uid_1000/job_4711/step_0/task_0\n1:name=systemd:/\n", "4711"),
        ("4:devices:/slurm_gpu07/uid_1000/job_4711/step_extern/task_0\n", "4711"),
        ("0::/system.slice/slurmstepd.scope/system\n", None),
        ("0::/system.slice/slurmd.service\n", None),
        # A user's own folders are called as the user likes.
        ("0::/user.slice/user-1.slice/user@1.service/slurmstepd.scope/job_4711/x\n", None),
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user/job_4711\n", "12"),
        ("0::/system.slice/slurmstepd.scope/job_4711x/step_0\n", None),
        ("", None),
    ],
)
def test_the_job_of_a_cgroup(text, job):
    assert read_cgroup(text) == (job, None)


@pytest.mark.parametrize("name", ["slurmstepd.scope", "gpu07_slurmstepd.scope"])
def test_the_sluid_of_a_cgroup(name):
    assert read_cgroup(STEP.replace("slurmstepd.scope", name)) == (None, SLUID)
    assert read_cgroup(STEP.replace(SLUID, "system")) == (None, None)


def place(root: Path, pid: int, cgroup: str, env: bytes = b"") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(env)


def test_a_sluid_is_asked_for_once(tmp_path):
    place(tmp_path, 1, STEP, b"SLURM_JOB_ID=1\0")  # as its user would have it
    place(tmp_path, 2, STEP)
    place(tmp_path, 3, "0::/init.scope\n")
    asked: list[int] = []

    def ask(pid: int) -> str:
        asked.append(pid)
        return "4711"

    jobs = SlurmJobs(tmp_path, ask)
    assert [jobs.find(pid) for pid in (1, 2, 3, 4)] == ["4711", "4711", None, None]
    assert asked == [1]
    assert jobs.find_all([1, 2]) == "4711"
    assert jobs.find_all([1, 3]) is None


@pytest.mark.parametrize(
    ("env", "job"),
    [(b"A=b\0SLURM_JOB_ID=4711\0", "4711"), (b"SLURM_JOB_ID=x\0", SLUID), (b"", SLUID)],
)
def test_without_slurmd_the_environment_is_read(tmp_path, env, job):
    place(tmp_path, 1, STEP, env)
    assert SlurmJobs(tmp_path, lambda pid: None).find(1) == job


@pytest.mark.parametrize(
    ("said", "job"),
    [
        ("Slurm job id 4711 ends at Sat Nov 28 12:00:00 2026", "4711"),
        ("slurm_load_job error: Invalid job id specified", None),
    ],
)
def test_what_slurmd_says(tmp_path, monkeypatch, said, job):
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\n[ "$*" = "pidinfo 7" ] && echo "{said}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert ask_slurmd(7) == job


def test_a_gpu_of_one_job_has_its_number(tmp_path):
    place(tmp_path, 7, STEP.replace(SLUID, "job_4711"))
    place(tmp_path, 8, STEP.replace(SLUID, "job_4712"))
    latest = Latest({n: Device(n, "nvidia", "H200", f"GPU-{n}") for n in (0, 1)})
    latest.put(
        Round(1, 1, [
            *(Reading(Entity(GPU, n), 1, {"GPU utilization": 50.0}) for n in (0, 1)),
            *(Reading(Entity(PROCESS, gpu, f"process {pid}"), 1, {"memory used": 1.0})
              for gpu, pid in ((0, 7), (1, 7), (1, 8))),
        ])
    )  # fmt: skip
    collector = Collector(latest, host="n", jobs=SlurmJobs(tmp_path))
    found = {
        labels["gpu"]: labels.get("hpc_job")
        for name, _, _, labels, _ in collector.list_samples()
        if name == "DCGM_FI_DEV_GPU_UTIL"
    }
    assert found == {"0": "4711", "1": None}
