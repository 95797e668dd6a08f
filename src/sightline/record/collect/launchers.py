"""Launchers of ranks: where their program begins in a command, and a tool around each rank.

Options with a value: mpirun(1) of Open MPI 4 and 5, mpiexec of MPICH (Hydra), srun(1) of Slurm,
torchrun (docs.pytorch.org, "torchrun"), deepspeed (its launcher/runner.py), `accelerate launch`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Launcher(NamedTuple):
    """`rank`: the variable that tells a rank its number; None: it depends on the MPI.

    `bare`: the option with which it starts any program; None: it always does. `named`: options
    whose value may be the name of a program, and is none.
    """

    rank: str | None
    bare: str | None = None
    named: tuple[str, ...] = ()


_OF_MPI = (
    "-H -host --host -x -genv -env -wdir --wdir -prefix --prefix -hostfile --hostfile "
    "-machinefile --machinefile -f -rf --rankfile"
)
_OF_SRUN = (
    "-J --job-name -p --partition -A --account -w --nodelist -x --exclude -o --output -e --error "
    "-i --input -D --chdir -q --qos -C --constraint --container-image"
)
_MPIRUN = Launcher(None, None, tuple(_OF_MPI.split()))
_SRUN = Launcher("SLURM_PROCID", None, tuple(_OF_SRUN.split()))
LAUNCHERS: Mapping[str, Launcher] = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), _MPIRUN),
    "mpiexec.hydra": _MPIRUN._replace(rank="PMI_RANK"),
    "srun": _SRUN,
    "torchrun": Launcher("RANK", "--no-python"),
    "torch.distributed.run": Launcher("RANK", "--no-python"),
    "deepspeed": Launcher("RANK", "--no_python"),
    "accelerate": Launcher("RANK", "--no_python"),
}


class Place(NamedTuple):
    """Where the program of a launcher begins: the words before it, its own, its rank's variable."""

    before: list[str]
    program: list[str]
    rank: str


def find_mpi(version: str | None) -> str | None:
    """The variable of the rank by what `mpirun --version` prints; None where that is not an MPI's.

    Open MPI prints its name, or that of its run-time environment; MPICH and Intel MPI "HYDRA" or
    their names (https://docs.open-mpi.org, https://www.mpich.org).
    """
    text = (version or "").lower()
    if any(name in text for name in ("open mpi", "openrte", "prrte")):
        return "OMPI_COMM_WORLD_RANK"
    return "PMI_RANK" if any(name in text for name in ("hydra", "intel", "mpich")) else None


def find_program(command: Sequence[str], mpi: str | None, find: Any = shutil.which) -> Place | None:
    """Where the launched program begins; None where there is no launcher, or that is not clear.

    `mpi`: the variable of this machine's mpirun (find_mpi).
    """
    at = next((n for n, word in enumerate(command) if _name(word) in LAUNCHERS), None)
    if at is None or ":" in command:  # several programs (MPMD) have no single place
        return None
    launcher = LAUNCHERS[_name(command[at])]
    rank = launcher.rank or mpi
    if rank is None:
        return None
    words = list(command[at + 1 :])
    start = _start_python(words) if launcher.bare else _start_any(words, launcher.named, find)
    if start is None:
        return None
    before, program = [*command[: at + 1], *words[:start]], words[start:]
    if launcher.bare and launcher.bare not in before:
        before.append(launcher.bare)
        python = command[0] if _name(command[0]).startswith("python") else "python"
        program = [python, "-u", *program]  # as torchrun itself starts a script
    return Place(before, program, rank)


def _start_python(words: Sequence[str]) -> int | None:
    """The first word of a script, or of -m MODULE."""
    for number, word in enumerate(words):
        if word in ("-m", "--module") or word.endswith(".py"):
            return number
        if word in ("--no-python", "--no_python"):
            return number + 1 if number + 1 < len(words) else None
    return None


def _start_any(
    words: Sequence[str], named: Sequence[str], find: Callable[[str], str | None]
) -> int | None:
    """The first word that can be started, and is not an option's value."""
    for number, word in enumerate(words):
        is_value = number and words[number - 1] in named
        if not word.startswith("-") and not is_value and find(word) is not None:
            return number
    return None


def _name(word: str) -> str:
    return Path(word).name
