"""MPI's calls, through its profiling interface (collect.mpi_calls)."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.look import find_program
from sightline.record.collect.mpi_calls import is_mpi_job
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    if situation.facts.get("mpicc") is None:
        return Verdict(False, "mpicc, which builds the recorder for this MPI, is not on the PATH")
    what = "who sends, receives and waits, through its profiling interface"
    return Verdict(True, f"MPI's calls: {what}")


def _is_picked(situation: Situation) -> bool:
    """Nsight Systems and unitrace record MPI's calls themselves."""
    return is_mpi_job(situation.command) and situation.vendor_tool not in ("nsys", "unitrace")


def _describe(facts: Facts) -> Way:
    what = "MPI's calls (any MPI)"
    if facts.get("mpicc") is None:
        return Way(what, False, "mpicc is not on the PATH: sudo apt-get install libopenmpi-dev")
    return Way(what, True, "programs in C, C++ and mpi4py that mpirun, mpiexec or srun start")


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts.get("mpicc") is None:
        yield Missing(
            "mpicc, which builds the recorder of MPI's calls, is not on the PATH",
            (
                "module load openmpi                           # on a cluster, or its own name",
                "sudo apt-get install libopenmpi-dev           # or libmpich-dev",
            ),
            "https://docs.open-mpi.org/en/main/building-apps/index.html",
        )


BACKEND = Backend(
    "mpi",
    order=120,
    is_of_gpu=False,
    judge=_judge,
    answers={"timeline": _is_picked},
    facts=(Fact("mpicc", 100, lambda look: find_program("mpicc")),),
    ways=(_describe,),
    needs=("mpi",),
    checks={"mpi": _check},
)
