"""Files of MPI calls, written here: what their records mean, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.core.model import mpi_file as f
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.own import sightline_mpi
from support.damage import survive_damage

OFFSET = 1_700_000_000_000_000_000
NAMES = ["MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce", "MPI_Init"]
NOTHING = {
    "bytes": -1, "received": -1, "request": -1, "thread": 70, "group": 0, "group_size": 4,
    "peer": -1, "peer_rank": -1, "root": -1, "root_rank": -1, "tag": -1,
}  # fmt: skip


def call(start: int, end: int, routine: int, what: int, **told: int) -> dict[str, int]:
    return NOTHING | {"start_ns": start, "end_ns": end, "routine": routine, "what": what} | told


CALLS = [
    call(10, 20, 4, f.CALL, group=f.NO_GROUP, group_size=-1),
    call(30, 40, 0, f.POST_RECEIVE, peer=-2, tag=-1, bytes=80, request=5),
    call(50, 60, 1, f.POST_SEND, peer=1, peer_rank=3, tag=9, bytes=80, request=6, group=77),
    # One call that completes both; the status says who had sent.
    call(70, 90, 2, f.COMPLETED, peer=2, peer_rank=2, tag=9, bytes=40, request=5),
    call(70, 90, 2, f.COMPLETED, request=6, group=f.NO_GROUP, group_size=-1),
    call(95, 99, 3, f.COLLECTIVE, bytes=8, received=8),
]


def write(path: Path, calls: list[dict[str, int]] = CALLS, **header: int) -> Path:
    told = {"rank": 1, "size": 4, "ended": 1, "lost": 0, "version": f.VERSION} | header
    head = f.HEADER.pack(
        f.MAGIC, told["version"], 70, told["rank"], told["size"], 5, OFFSET + 5, 100, OFFSET + 100,
        f.RECORD_BYTES, told["ended"], told["lost"],
    )  # fmt: skip
    names = "".join(f"{name}\n" for name in NAMES).encode()
    page = head.ljust(f.NAMES_AT, b"\0") + names
    rows = np.zeros(len(calls), np.dtype(list(f.FIELDS)))
    for number, row in enumerate(calls):
        for name, value in row.items():
            rows[name][number] = value
    path.write_bytes(page.ljust(f.HEADER_BYTES, b"\0") + rows.tobytes())
    return path


def read(path: Path) -> Imported:
    return sightline_mpi.read(Source(path, path.name), ImportOptions())


def test_what_a_file_says(tmp_path: Path) -> None:
    imported = read(write(tmp_path / "rank1-abcdabcd-70.mpi"))
    host = imported.tables["host_ops"]
    assert host.select("name", "layer", "start_ns", "tid").rows() == [
        ("MPI_Init", "mpi", OFFSET + 10, 70),
        ("MPI_Irecv", "mpi", OFFSET + 30, 70),
        ("MPI_Isend", "mpi", OFFSET + 50, 70),
        ("MPI_Waitall", "mpi", OFFSET + 70, 70),
        ("MPI_Allreduce", "mpi", OFFSET + 95, 70),
    ]
    events = imported.tables["mpi_events"]
    columns = ("host_op_id", "kind", "direction", "stage", "tag", "peer", "peer_rank", "bytes",
               "group", "request")  # fmt: skip
    assert events.select(columns).rows() == [
        (1, "p2p", "receive", "posted", None, None, None, 80, "world", 5),
        (2, "p2p", "send", "posted", 9, 1, 3, 80, "communicator 77", 6),
        (3, "start_wait", None, "completed", 9, 2, 2, 40, "world", 5),
        (3, "start_wait", None, "completed", None, None, None, None, None, 6),
        (4, "collective", None, None, None, None, None, None, "world", None),
    ]
    assert events.select("bytes_sent", "bytes_received", "group_size").row(-1) == (8, 8, 4)
    recording = imported.recording
    assert (recording.rank, recording.world_size, recording.clock_offset_ns) == (1, 4, OFFSET)
    assert imported.quality == []


@pytest.mark.parametrize(
    ("header", "kind"),
    [({"ended": 0}, "process_killed"), ({"lost": 3}, "events_lost")],
)
def test_what_limits_it_is_said(tmp_path: Path, header: dict[str, int], kind: str) -> None:
    imported = read(write(tmp_path / "a.mpi", **header))
    assert [q.kind for q in imported.quality] == [kind]


def test_records_that_are_none_are_counted(tmp_path: Path) -> None:
    wrong = [call(0, 5, 0, f.CALL), call(9, 5, 0, f.CALL), call(1, 5, 99, f.CALL), call(1, 5, 0, 9)]
    imported = read(write(tmp_path / "a.mpi", [*CALLS, *wrong]))
    assert imported.tables["host_ops"].height == 5
    assert [(q.kind, q.count) for q in imported.quality] == [("damaged_events", 4)]


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="version 9"):
        read(write(tmp_path / "a.mpi", version=9))


def test_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mpi")
    survive_damage(sightline_mpi.read, path, path.read_bytes())
