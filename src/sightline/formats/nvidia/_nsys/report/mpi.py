"""MPI calls: NVTX ranges of a domain of their own, with the call's arguments as a payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from sightline.formats.nvidia._nsys.codes import wrap_integer
from sightline.formats.nvidia._nsys.report.payloads import PayloadSchemas

DOMAIN = "MPI"
RANK_MARK = "MPI Rank "  # and its number: how the injection names the main thread
_TEAM = "NsysMpiTeam"  # the schema of what is recorded of a new communicator
_NO_GROUP = -1  # its GroupRootUniqueId where it was not made from a group

_RANGE = ("start", "end", "globalTid", "textId")
WANTED = (*_RANGE, "_schemaId", "binaryData")  # of NVTX_EVENTS
_COLUMNS = {
    "MPI_P2P_EVENTS": ("commHandle", "tag", "remoteRank", "size", "requestHandle"),
    "MPI_COLLECTIVES_EVENTS": ("commHandle", "rootRank", "size", "recvSize", "requestHandle"),
    "MPI_START_WAIT_EVENTS": ("requestHandle",),
    "MPI_OTHER_EVENTS": (),
}


def list_events(
    events: pl.DataFrame, payloads: pl.Series, schemas: PayloadSchemas
) -> dict[str, pl.DataFrame]:
    """The four tables of MPI calls, by name.

    `events` has the columns WANTED, `binaryData` as a row of `payloads` + 1.
    """
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in _COLUMNS}
    for *place, schema, code in events.select(WANTED).iter_rows():
        process = place[2] - place[2] % 2**24
        values: dict[str, list[int]] = {}
        if schema is not None and code:
            values = schemas.decode(process, schema, payloads[code - 1])
        table = _table_of(set(values))
        requests: list[int | None] = [*values.get("Requests", values.get("Request", ()))]
        for request in requests or [None]:
            given = _describe(table, values, request)
            rows[table].append((*place, *(given[name] for name in _COLUMNS[table])))
    return {
        name: pl.DataFrame(
            [_wrap(row) for row in rows[name]],
            schema=dict.fromkeys((*_RANGE, *columns), pl.Int64),
            orient="row",
        )
        for name, columns in _COLUMNS.items()
    }


def _table_of(fields: set[str]) -> str:
    """Which table a call with these arguments is in.

    A call that both sends and receives is in none that has arguments: such a one was never seen
    beside an export.
    """
    if len(fields & {"Source", "Destination"}) == 1:
        return "MPI_P2P_EVENTS"
    if "Communicator" in fields and not fields & {"Source", "Destination"}:
        return "MPI_COLLECTIVES_EVENTS"
    if fields & {"Request", "Requests"}:
        return "MPI_START_WAIT_EVENTS"
    return "MPI_OTHER_EVENTS"


def _describe(
    table: str, values: Mapping[str, list[int]], request: int | None
) -> dict[str, int | None]:
    """The columns of a call's arguments."""

    def one(*names: str) -> int | None:
        return next((values[name][0] for name in names if name in values), None)

    sent, received = one("Bytes sent"), one("Bytes received")
    if table == "MPI_COLLECTIVES_EVENTS":
        # What a rank that is not the root does not send or receive is left out, not 0.
        sizes = sent or None, received or None
    else:
        sizes = (received if sent is None else sent), None
    return {
        "commHandle": one("Communicator"),
        "tag": one("Tag"),
        "remoteRank": one("Source", "Destination"),
        "rootRank": one("Root"),
        "size": sizes[0],
        "recvSize": sizes[1],
        "requestHandle": request,
    }


def _wrap(row: Iterable[int | None]) -> tuple[int | None, ...]:
    return tuple(None if value is None else wrap_integer(value) for value in row)


def list_ranks(marks: pl.DataFrame, schemas: PayloadSchemas) -> dict[str, pl.DataFrame]:
    """MPI_RANKS and MPI_COMMUNICATORS. `marks` has globalTid and text of thread names."""
    ranks = marks.filter(pl.col("text").str.contains(f"^{RANK_MARK}[0-9]{{1,9}}$")).select(
        "globalTid", rank=pl.col("text").str.strip_prefix(RANK_MARK).cast(pl.Int64)
    )
    of_process = {tid - tid % 2**24: rank for tid, rank in ranks.iter_rows()}
    rows = []
    for process, time, values in schemas.records(_TEAM):
        plain = {name: found[0] for name, found in values.items()}
        is_part = plain.get("GroupRootUniqueId", _NO_GROUP) != _NO_GROUP
        known = [plain.get(name) for name in ("NewComm", "ParentComm", "LocalRank", "Size")]
        root = [plain.get(name) for name in ("GroupRootGlobalRank", "GroupRootUniqueId")]
        rows.append(
            _wrap([of_process.get(process), time, *known, *(root if is_part else [None, None])])
        )
    columns = ("rank", "timestamp", "commHandle", "parentHandle", "localRank", "size")
    schema = dict.fromkeys((*columns, "groupRoot", "groupRootUid"), pl.Int64)
    return {
        "MPI_RANKS": ranks,
        "MPI_COMMUNICATORS": pl.DataFrame(rows, schema=schema, orient="row"),
    }
