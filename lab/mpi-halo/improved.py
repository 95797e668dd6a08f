"""The same with as much work for each rank: a row that reacts costs as much as five others."""

import numpy as np
from mpi4py import MPI

import sightline as sl

STEPS, ROWS, COLUMNS, HOT_FROM = 200, 1024, 1024, 512


def split_rows(size: int) -> list[int]:
    """The first row of each rank, and the end of the last one: as much work for each."""
    cost = np.where(np.arange(ROWS) < HOT_FROM, 1, 5).cumsum()
    return [int(np.searchsorted(cost, cost[-1] * rank / size)) for rank in range(size)] + [ROWS]


def exchange(grid: np.ndarray, above: int, below: int, comm: MPI.Comm) -> None:
    """Fetch the neighbours' outermost rows."""
    MPI.Request.Waitall(
        [
            comm.Irecv(grid[0], above, tag=1),
            comm.Irecv(grid[-1], below, tag=2),
            comm.Isend(grid[1], above, tag=2),
            comm.Isend(grid[-2], below, tag=1),
        ]
    )


def spread(grid: np.ndarray, room: np.ndarray) -> None:
    """Each cell becomes the mean of the four around it."""
    np.add(grid[:-2, 1:-1], grid[2:, 1:-1], out=room)
    room += grid[1:-1, :-2]
    room += grid[1:-1, 2:]
    np.multiply(room, 0.25, out=grid[1:-1, 1:-1])


def react(hot: np.ndarray, room: np.ndarray) -> None:
    """Some rounds of what happens only where it is hot."""
    for _ in range(6):
        np.exp(hot, out=room)
        room *= 1e-4
        hot += room


def main() -> None:
    comm = MPI.COMM_WORLD
    starts = split_rows(comm.size)
    first, last = starts[comm.rank], starts[comm.rank + 1]
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    grid = np.zeros((last - first + 2, COLUMNS))
    room, hot = np.empty((last - first, COLUMNS - 2)), grid[max(HOT_FROM - first, 0) + 1 : -1]
    hot_room, total = np.empty_like(hot), np.zeros(1)
    for step in range(STEPS):
        exchange(grid, above, below, comm)
        spread(grid, room)
        react(hot, hot_room)
        if step % 20 == 19:
            comm.Allreduce(np.array([grid.sum()]), total)
        sl.step()


if __name__ == "__main__":
    main()
