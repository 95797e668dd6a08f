"""rocprof's results.db: kernels as results.csv has them, and the tables of what was traced.

Format: projects/rocprofiler/bin, tblextr.py: KERN (kernels with their counters, empty where none
was asked for), OPS (kernels of HIP), COPY, HIP and HSA (calls), rocTX (ranges and marks). A call's
Index is the number of the work that it asked for.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.formats import _rocm
from sightline.formats._sqlite import SqliteFile
from sightline.formats.amd.rocprof_legacy.spans import Part, complete, name_copies

_AGAIN = "Record it again:  rocprofv3 --sys-trace -- PROGRAM"
_BARRIER = "<barrier packet>"  # a queue's wait: no work
_ADDED = r"(?: \[clone \.kd\]|\.kd)$"  # to names, by the linker
_COLUMNS = {
    "BeginNs": "start_ns", "EndNs": "end_ns", "pid": "pid", "tid": "tid", "Name": "name",
    "Index": "correlation_id", "dev-id": "agent", "queue-id": "queue_id", "stream-id": "stream_id",
}  # fmt: skip
_CALLS = {"HIP": "HIP", "HSA": "HSA", "rocTX": "ROCTX"}


def read_database(source: Source, notes: list[Quality]) -> tuple[pl.DataFrame, Part]:
    """The rows of KERN under their own names, and everything else; adds what was lost to notes."""
    db = SqliteFile(source.plain_path(), source.given, _AGAIN)
    try:
        kernels = db.rows("KERN", list(db.columns("KERN")))
        work, copies = _read_table(db, "OPS"), _read_table(db, "COPY")
        calls = [_read_table(db, name).with_columns(category=pl.lit(category))
                 for name, category in _CALLS.items()]  # fmt: skip
        for table, why in sorted(db.lost.items()):
            text = f"table {table} could only be read in part ({why})"
            notes.append(Quality("damaged_table", "error", text, None, _AGAIN))
    finally:
        db.close()
    plain = pl.col("name").str.strip_chars('"').str.replace(_ADDED, "")
    work = work.with_columns(plain).filter(pl.col("name").ne_missing(_BARRIER))
    # Kernels are recorded twice where counters were asked for, too: with all that is known once.
    work = work.clear() if kernels.height else work
    return kernels, Part(
        dispatches=complete(work, _rocm.DISPATCH, "name", "mangled_name"),
        copies=complete(name_copies(copies), _rocm.COPY, "name"),
        regions=_list_regions(pl.concat(calls)),
        bad=0,
    )


def _read_table(db: SqliteFile, table: str) -> pl.DataFrame:
    """Its rows under our names; none where it is missing, as where that was not traced."""
    types = {ours: pl.String if ours == "name" else pl.Int64 for ours in _COLUMNS.values()}
    there = set(db.columns(table))
    known = [name for name in _COLUMNS if name in there]
    if "BeginNs" not in there:
        return pl.DataFrame(schema=types)
    rows = db.rows(table, known).rename({name: _COLUMNS[name] for name in known})
    return rows.select(
        (pl.col(ours) if ours in rows.columns else pl.lit(None))
        .cast(dtype, strict=False)
        .alias(ours)
        for ours, dtype in types.items()
    )


def _list_regions(calls: pl.DataFrame) -> pl.DataFrame:
    is_marker = pl.col("category") == "ROCTX"
    named = calls.with_columns(
        message=pl.when(is_marker).then("name"),
        correlation_id=pl.when(pl.col("category") == "HIP").then("correlation_id"),
        # rocprof gives a mark 1 ns.
        end_ns=pl.when(is_marker & (pl.col("end_ns") == pl.col("start_ns") + 1))
        .then("start_ns")
        .otherwise("end_ns"),
    )
    return complete(named, _rocm.REGION, "category", "name", "message")
