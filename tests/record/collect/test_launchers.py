"""Where a launcher's program begins, and a tool around each of its ranks."""

from __future__ import annotations

import pytest

from sightline.record.collect.launchers import find_mpi, find_program

OMPI = "OMPI_COMM_WORLD_RANK"
PROGRAMS = {"python", "./a.out", "test", "nsys", "numactl"}


def find(word: str) -> str | None:
    return word if word in PROGRAMS else None


@pytest.mark.parametrize(
    ("command", "before", "program", "rank"),
    [
        ("mpirun -np 8 python t.py", "mpirun -np 8", "python t.py", OMPI),
        # The host is called as a program is.
        ("mpirun -H test -n 2 ./a.out x", "mpirun -H test -n 2", "./a.out x", OMPI),
        ("mpirun -x PATH --tag ./a.out", "mpirun -x PATH --tag", "./a.out", OMPI),
        ("mpiexec.hydra -n 2 ./a.out", "mpiexec.hydra -n 2", "./a.out", "PMI_RANK"),
        ("srun -J python --mpi=pmix numactl ./a.out", "srun -J python --mpi=pmix",
         "numactl ./a.out", "SLURM_PROCID"),
        ("torchrun --nnodes 8 t.py --lr 1", "torchrun --nnodes 8 --no-python",
         "python -u t.py --lr 1", "RANK"),
        ("torchrun --nnodes=2 -m pkg.train", "torchrun --nnodes=2 --no-python",
         "python -u -m pkg.train", "RANK"),
        ("torchrun --no-python ./a.out", "torchrun --no-python", "./a.out", "RANK"),
        ("python3 -m torch.distributed.run t.py", "python3 -m torch.distributed.run --no-python",
         "python3 -u t.py", "RANK"),
        ("deepspeed --num_gpus=4 t.py", "deepspeed --num_gpus=4 --no_python",
         "python -u t.py", "RANK"),
        ("accelerate launch t.py", "accelerate launch --no_python", "python -u t.py", "RANK"),
    ],
)  # fmt: skip
def test_where_the_program_begins(command, before, program, rank):
    place = find_program(command.split(), OMPI, find)
    assert place is not None
    assert (" ".join(place.before), " ".join(place.program), place.rank) == (before, program, rank)


@pytest.mark.parametrize(
    "command",
    [
        "python t.py",
        "mpirun -n 1 ./a.out : -n 1 test",
        "mpirun -n 4",
        "torchrun --help",
        "srun -n 4",
    ],
)
def test_where_it_is_not_clear_nothing_is_guessed(command):
    assert find_program(command.split(), OMPI, find) is None


def test_an_mpi_that_nobody_names_gives_no_rank():
    assert find_program(["mpirun", "./a.out"], None, find) is None
    assert find_mpi("mpirun (Open MPI) 4.1.4") == "OMPI_COMM_WORLD_RANK"
    assert find_mpi("HYDRA build details:\n    Version: 4.0.2") == "PMI_RANK"
    assert find_mpi("Intel(R) MPI Library for Linux* OS, Version 2021.10") == "PMI_RANK"
    assert find_mpi(None) is None and find_mpi("something else") is None
