"""Who asks a node's daemon for orders: which rank of which job, on which GPU.

Names of jobs: Slurm (SLURM_JOB_ID), PBS (PBS_JOBID), LSF (LSB_JOBID), Flux (FLUX_JOB_ID), Grid
Engine (JOB_ID), Kubeflow and torchrun (TORCHELASTIC_RUN_ID, which is "none" unless it is set:
torch/distributed/run.py). Without one, processes that meet at the same address are one job.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sightline.core.foreign_files import find_owner
from sightline.core.redaction import show_command
from sightline.record.collect.kineto_door import Client, Request
from sightline.record.inline.rank import Identity, find_identity
from sightline.record.probe.processes import find_own_number, read_environment

_JOBS = (
    *("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"),
    "TORCHELASTIC_RUN_ID",
)
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_MOST_TEXT = 200  # of a command or a name that a program chose (ours: a line of a terminal or two)


@dataclass(frozen=True)
class Listener:
    """A process that asks for orders, and what its environment says of it; None: it does not."""

    client: Client
    identity: Identity
    job: str | None
    gpu: str | None
    command: str

    @property
    def pid(self) -> int:
        """Its number on this node."""
        return self.client.pid

    @property
    def user(self) -> int:
        """Whose it is."""
        return self.client.owner.user

    def describe(self) -> dict[str, Any]:
        """As data, for those who ask the daemon."""
        return {
            "pid": self.pid,
            "rank": self.identity.rank,
            "world_size": self.identity.world_size,
            "job": self.job,
            "gpu": self.gpu,
            "user": name_user(self.user),
            "command": self.command,
        }


def read_listener(request: Request, address: str) -> Listener | None:
    """Who asked at a door's address; None where it has ended, or another user's is hidden."""
    pid = request.pid
    try:
        owner = find_owner(pid)
        command = " ".join(show_command(psutil.Process(pid).cmdline()))
    except (OSError, KeyError, psutil.Error):
        return None
    env = read_environment(pid)
    folder = (env.get("KINETO_ONDEMAND_TRACE_DIR") or "/tmp").rstrip("/")  # noqa: S108  # Kineto's
    client = Client(pid, str(request.answer_to), find_own_number(pid), address, folder, owner)
    identity = find_identity(env)
    return Listener(client, identity, find_job(env), find_gpu(env, identity), command[:_MOST_TEXT])


def find_job(env: Mapping[str, str]) -> str | None:
    """The job that a process belongs to, as its environment has it."""
    for name in _JOBS:
        if (value := env.get(name)) and value != "none":
            return value[:_MOST_TEXT]
    if "MASTER_ADDR" in env and "MASTER_PORT" in env:
        return f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"[:_MOST_TEXT]
    return None


def find_gpu(env: Mapping[str, str], identity: Identity) -> str | None:
    """The GPU that the local rank has of those that it may see, as the launcher counts them."""
    for name in _DEVICES:
        seen = [device for device in env.get(name, "").split(",") if device]
        if len(seen) == 1:
            return seen[0][:_MOST_TEXT]
        if identity.local_rank is not None and identity.local_rank < len(seen):
            return seen[identity.local_rank][:_MOST_TEXT]
    return None if identity.local_rank is None else str(identity.local_rank)


def name_user(user: int) -> str:
    """The user's name, or the number where the node knows none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def has_gpu() -> bool:
    """Whether the node has a device of NVIDIA's or AMD's drivers: Kineto warms up for those."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()
