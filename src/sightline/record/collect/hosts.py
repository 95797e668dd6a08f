"""Whether a command starts a job on several hosts, by its launcher's own words and variables.

Only then does anything of ours listen beyond this machine. A program has options of the same names
(`vllm serve --host`, `uvicorn --host`), so words count between a launcher and its program only.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sightline.record.inline.rank import find_identity

_HOSTS = frozenset(
    ("--host", "-host", "-H", "--hosts", "-hosts", "--hostfile", "-hostfile", "--machinefile",
     "-machinefile", "-f")
)  # fmt: skip
_OF_MPI = (_HOSTS, frozenset[str]())
_OF_TORCH = (frozenset[str](), frozenset(("--nnodes",)))
# A launcher: the options that name hosts, and those that count them. From the manuals of Open MPI,
# MPICH (Hydra) and Slurm, and `--help` of torchrun, accelerate, DeepSpeed and Horovod.
_LAUNCHERS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(
        ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "jsrun", "aprun"), _OF_MPI
    ),
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch"), _OF_TORCH),
    "srun": (frozenset(), frozenset(("-N", "--nodes"))),
    "accelerate": (frozenset(), frozenset(("--num_machines",))),
    "deepspeed": (frozenset(("-H", "--hostfile")), frozenset(("--num_nodes",))),
    "horovodrun": (frozenset(("-H", "--hosts", "--hostfile")), frozenset()),
}
_HERE = frozenset(("localhost", "127.0.0.1", "::1"))


def is_on_several_hosts(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the job has more than one host, as far as its launcher says."""
    if env.get("SLURM_NNODES", "1") not in ("", "1"):
        return True
    own = find_identity(env)
    local = env.get("OMPI_COMM_WORLD_LOCAL_SIZE") or env.get("LOCAL_WORLD_SIZE")
    if own.world_size is not None and local is not None and local != str(own.world_size):
        return True
    launcher, words = _find_launcher(command)
    names, counts = _LAUNCHERS.get(launcher, (frozenset(), frozenset()))
    for before, word, following in zip(["", *words], words, [*words[1:], ""], strict=False):
        if _is_program(word, before):
            return False
        name, equals, value = word.partition("=")
        value = value if equals else following
        if name in counts and value != "1":
            return True
        if name in names and not _names_this_host(name, value):
            return True
    return False


def _find_launcher(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The launcher's name and the words behind it; none where a program comes first."""
    for number, word in enumerate(command):
        name = Path(word).name
        if name in _LAUNCHERS:
            return name, command[number + 1 :]
        if name.endswith(".py"):
            break
    return "", ()


def _is_program(word: str, before: str) -> bool:
    """Whether a launcher's own words end here. A bare word behind an option may be its value."""
    if word == "--" or word.endswith(".py"):
        return True
    if word.startswith("-") or (before.startswith("-") and "=" not in before and "/" not in word):
        return Path(word).name.startswith("python")
    return shutil.which(word) is not None


def _names_this_host(name: str, value: str) -> bool:
    """Whether a list of hosts, with their slots, has only this one."""
    if "file" in name or name == "-f":
        return False
    return all(host.partition(":")[0] in _HERE for host in value.split(","))
