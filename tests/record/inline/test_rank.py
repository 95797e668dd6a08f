"""Ranks, as launchers give them, and which of them are recorded."""

from __future__ import annotations

import pytest

from sightline.record.inline.rank import find_identity, is_chosen


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, None, None, None)),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x"},
         (3, 1, 8, "torchrun")),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "CROSS_SIZE": "2"},
         (3, 1, 8, "DeepSpeed")),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
          "OMPI_COMM_WORLD_SIZE": "16"}, (5, 1, 16, "Open MPI")),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, (2, 0, 4, "MPICH")),
        ({"SLURM_PROCID": "7", "SLURM_LOCALID": "3", "SLURM_NTASKS": "8",
          "SLURM_STEP_NUM_TASKS": "8"}, (7, 3, 8, "Slurm")),
        # A batch script is no task.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (None, None, None, None)),
        # srun starts torchrun, which starts the ranks.
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "9", "WORLD_SIZE": "16",
          "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}, (9, 1, 16, "torchrun")),
        ({"RANK": "-1"}, (None, None, None, None)),
        ({"RANK": "many"}, (None, None, None, None)),
    ],
)  # fmt: skip
def test_the_rank_that_a_launcher_gives(variables, expected):
    assert tuple(find_identity(variables)) == expected


@pytest.mark.parametrize(
    ("rank", "ranks", "every", "expected"),
    [
        (None, (3,), 8, True),
        (0, (), 1, True),
        (7, (0, 7), 1, True),
        (6, (0, 7), 1, False),
        (8, (), 8, True),
        (9, (), 8, False),
        (8, (9,), 8, False),
    ],
)
def test_which_ranks_are_recorded(rank, ranks, every, expected):
    assert is_chosen(rank, ranks, every) is expected
