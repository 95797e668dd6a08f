"""mpi_event_trace: each MPI call, in order of start."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.exports import with_mpi


def test_a_send_and_a_broadcast(tmp_path: Path) -> None:
    """Start, end, length, name, pid, tid; tag, rank, peer, root; sizes: message, sent, received."""
    assert rows(with_mpi(tmp_path), "mpi_event_trace") == [
        (10, 30, 20, "MPI_Send", 7, 7, 5, 2, 3, None, pytest.approx(0.0008), None, None),
        (40, 90, 50, "MPI_Bcast", 7, 7, None, 2, None, 0, None, pytest.approx(0.000064), 0),
    ]
