"""mpi_msg_size_sum: message sizes by MPI call and side."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import with_mpi


def test_a_send_and_a_broadcast(tmp_path: Path) -> None:
    fields = "Total Message Volume (B)", "Instances", "Avg (B)", "Source", "Name"
    assert rows(with_mpi(tmp_path), "mpi_msg_size_sum", *fields) == [
        (800, 1, 800.0, "p2p", "MPI_Send"),
        (64, 1, 64.0, "coll_send", "MPI_Bcast"),
        (0, 1, 0.0, "coll_recv", "MPI_Bcast"),
    ]
