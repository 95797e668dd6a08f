"""Which rank this process is, as its launcher says: torchrun, DeepSpeed, MPI, PMI, Slurm.

Names: torchrun and DeepSpeed, https://docs.pytorch.org/docs/stable/elastic/run.html (RANK,
LOCAL_RANK, WORLD_SIZE); Open MPI, https://docs.open-mpi.org (OMPI_COMM_WORLD_*); MPICH and
Intel MPI, https://www.mpich.org (PMI_RANK, MPI_LOCALRANKID); PMIx (PMIX_RANK); MVAPICH
(MV2_COMM_WORLD_*); Slurm, https://slurm.schedmd.com/srun.html (SLURM_PROCID, SLURM_LOCALID).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple


class Identity(NamedTuple):
    """A process's place in a job; None where nothing says so."""

    rank: int | None
    local_rank: int | None
    world_size: int | None
    launcher: str | None


# The innermost launcher comes first: srun may start torchrun, which gives the ranks then.
_LAUNCHERS = (
    ("torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("PMIx", "PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)


def find_identity(environment: Mapping[str, str] | None = None) -> Identity:
    """The rank that the environment names."""
    env = os.environ if environment is None else environment
    for launcher, rank, local, size in _LAUNCHERS:
        number = _number(env.get(rank))
        if number is None:
            continue
        # Slurm sets its names in a batch script too, where there is one process and no task.
        if launcher == "Slurm" and _number(env.get("SLURM_STEP_NUM_TASKS")) is None:
            continue
        if launcher == "torchrun" and "TORCHELASTIC_RUN_ID" not in env:
            launcher = "DeepSpeed" if "CROSS_SIZE" in env else "RANK in the environment"
        return Identity(number, _number(env.get(local)), _number(env.get(size)), launcher)
    return Identity(None, None, None, None)


def is_chosen(rank: int | None, ranks: tuple[int, ...], every: int) -> bool:
    """Whether a rank is to be recorded; a process without a rank always is."""
    if rank is None:
        return True
    return (not ranks or rank in ranks) and rank % max(every, 1) == 0


def make_host_mark() -> str:
    """Eight letters that tell hosts of a job apart without naming them.

    Containers of one host are told apart as well: what is a live process in one is none in another.
    """
    import hashlib

    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123  # pathlib costs 10 ms
            known = file.read()
    except OSError:
        known = ""
    with contextlib.suppress(OSError):
        known += os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # as above
    return hashlib.blake2b((os.uname().nodename + known).encode(), digest_size=4).hexdigest()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
