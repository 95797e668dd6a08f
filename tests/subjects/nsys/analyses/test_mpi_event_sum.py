"""mpi_event_sum: MPI calls by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import with_mpi


def test_a_send_and_a_broadcast(tmp_path: Path) -> None:
    fields = "Total Time (ns)", "Instances", "Source", "Name"
    assert rows(with_mpi(tmp_path), "mpi_event_sum", *fields) == [
        (50, 1, "collectives", "MPI_Bcast"),
        (20, 1, "p2p", "MPI_Send"),
    ]
