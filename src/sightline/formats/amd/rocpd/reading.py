"""Reads a rocpd database: each process' tables as the records that AMD's importers share."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import UnknownFormatError
from sightline.formats import _rocm
from sightline.formats._sqlite import SqliteFile

_AGAIN = "Record it again:  rocprofv3 --sys-trace -- PROGRAM"
_ANCHOR = "rocpd_string"  # every process has this table


def read_database(source: Source, options: ImportOptions) -> Imported:
    """Read all processes' records. Raises DamagedError, UnknownFormatError for another's file."""
    db = SqliteFile(source.plain_path(), source.given, _AGAIN)
    try:
        endings = [n.removeprefix(_ANCHOR) for n in db.tables if n.startswith(_ANCHOR)]
        if not endings:
            raise UnknownFormatError(
                f"cannot read {source.given}",
                why="it is a SQLite database without rocpd's tables of strings",
                hint=_AGAIN,
            )
        parts = [_Process(db, ending) for ending in endings]
        gpus: dict[int, dict[str, Any]] = {}
        for part in parts:
            gpus |= part.gpus
        records = _rocm.Records(
            dispatches=pl.concat([p.list_dispatches() for p in parts]),
            copies=pl.concat([p.list_copies() for p in parts]),
            regions=pl.concat([p.list_regions() for p in parts]),
            allocations=pl.concat([p.list_allocations() for p in parts]),
            counts=pl.concat([p.list_counts() for p in parts]),
            gpus=gpus,
            threads=pl.concat([p.list_threads() for p in parts]),
        )
        host = parts[0].find_host() if options.keep_identity else None
        notes = _check_file(db) + _note_lost_counts(sum(part.lost_counts for part in parts))
        notes += _note_lost_threads(sum(part.lost_threads for part in parts))
        return _rocm.build_tables(records, Recording("rocpd", host=host), notes)
    finally:
        db.close()


def _check_file(db: SqliteFile) -> list[Quality]:
    found = []
    if db.cut_off:
        text = "the file is cut off: what came after the cut is missing"
        found.append(Quality("cut_off", "error", text, None, _AGAIN))
    found += db.note_structure()
    for table, why in sorted(db.lost.items()):
        text = f"table {table} could only be read in part ({why})"
        found.append(Quality("damaged_table", "error", text, None, _AGAIN))
    for table, count in sorted(db.malformed.items()):
        text = f"values of {table} that are not integers were left out"
        found.append(Quality("malformed_values", "warning", text, count))
    return found


def _note_lost_counts(count: int) -> list[Quality]:
    if not count:
        return []
    text = "counter values refer to a counter or kernel that is missing: they were left out"
    return [Quality("missing_rows", "warning", text, count)]


def _note_lost_threads(count: int) -> list[Quality]:
    if not count:
        return []
    text = "threads have no id, or belong to a process that is missing: they have no name"
    return [Quality("missing_rows", "warning", text, count)]


def _name_real(column: str, known: dict[int, int]) -> pl.Expr:
    """A process or thread by the system's number; the file has ids of its own."""
    return pl.col(column).replace(known) if known else pl.col(column)


class _Process:
    """The tables of one process: those whose names end in its GUID."""

    def __init__(self, db: SqliteFile, ending: str) -> None:
        self._db, self._ending = db, ending
        self.lost_counts = self.lost_threads = 0
        texts = self._rows("string", ["id", "string"])
        self._text_ids = texts.get_column("id").cast(pl.Int64, strict=False)
        self._texts = texts.get_column("string").cast(pl.String)
        self._processes = self._pairs("info_process", "pid")
        self._tids = self._pairs("info_thread", "tid")
        self._events = self._ints("event", ("stack_id", "id", "category_id"))
        self._times = self._ints("timestamp", ("value", "id"))
        self._tracks = self._ints(
            "track", ("pid", "id", "tid", "agent_id", "queue_id", "stream_id", "name_id")
        )
        self.gpus = self._list_gpus()
        sizes = ("private_segment_size", "group_segment_size")
        axes = [f"{size}_{axis}" for size in ("workgroup_size", "grid_size") for axis in "xyz"]
        self._kernels = self._timed("kernel_dispatch", "kernel_id", *sizes, *axes)

    def list_dispatches(self) -> pl.DataFrame:
        """Kernels, with their symbols' names and registers."""
        frame = self._kernels
        symbols = self._rows(
            "info_kernel_symbol",
            ["id", "display_name", "kernel_name", "arch_vgpr_count", "accum_vgpr_count"],
        )
        row = find_rows(
            symbols.get_column("id").cast(pl.Int64, strict=False), frame.get_column("kernel_id")
        )
        found = symbols.select(
            # Architectural and accumulation registers come of one file since MI200.
            vgprs=pl.sum_horizontal(
                pl.col("arch_vgpr_count", "accum_vgpr_count").cast(pl.Int64, strict=False)
            ),
            name=pl.col("display_name").cast(pl.String),
            mangled_name=pl.col("kernel_name").cast(pl.String),
        ).select(pl.all().gather(row))
        renamed = frame.rename(
            {
                "private_segment_size": "scratch_bytes",
                "group_segment_size": "lds_bytes",
                **{f"workgroup_size_{axis}": f"workgroup_{axis}" for axis in "xyz"},
                **{f"grid_size_{axis}": f"work_items_{axis}" for axis in "xyz"},
            }
        )
        return renamed.hstack(found).select(*_rocm.DISPATCH, "name", "mangled_name")

    def list_copies(self) -> pl.DataFrame:
        """Copies between agents."""
        frame = self._timed("memory_copy", "name_id", "dst_agent_id", "src_agent_id", "size")
        return frame.rename(
            {"dst_agent_id": "dst_agent", "src_agent_id": "src_agent", "size": "bytes"}
        ).select(*_rocm.COPY, self._text(frame, "name_id").alias("name"))

    def list_regions(self) -> pl.DataFrame:
        """API calls and markers; those without a length are samples in the file."""
        messages = self._list_messages()
        marks = self._timed("sample", "track_id")
        tracks = find_rows(self._tracks.get_column("id"), marks.get_column("track_id"))
        own = self._tracks.get_column("name_id").gather(tracks)
        frames = [self._timed("region", "name_id"), marks.with_columns(name_id=own)]
        shared = [*_rocm.REGION, "name_id", "event_id", "category_id"]
        frame = pl.concat([f.select(shared) for f in frames])
        return frame.select(
            *_rocm.REGION,
            self._text(frame, "category_id").alias("category"),
            self._text(frame, "name_id").alias("name"),
            pl.col("event_id")
            .replace_strict(messages, default=None, return_dtype=pl.String)
            .alias("message"),
        )

    def list_allocations(self) -> pl.DataFrame:
        """Allocations and frees: the file's words for what was done, on which level."""
        frame = self._timed("memory_allocate", "address", "size")
        words = self._rows("memory_allocate", ["type", "level"]).cast(pl.String)
        if words.height != frame.height:  # damage cost some of either
            words = pl.DataFrame({c: [None] * frame.height for c in words.columns}, words.schema)
        return (
            frame.hstack(words)
            .rename({"start_ns": "time_ns", "size": "bytes", "type": "action"})
            .select(*_rocm.ALLOCATION, "action", "level")
        )

    def list_counts(self) -> pl.DataFrame:
        """Values of hardware counters, each with the kernel that it was counted over."""
        values = self._rows("pmc_event", ["event_id", "pmc_id", "value"])
        names = self._rows("info_pmc", ["id", "name"])
        joined = values.select(
            pl.col("event_id", "pmc_id").cast(pl.Int64, strict=False),
            pl.col("value").cast(pl.Float64, strict=False),
        ).join(
            names.select(
                pmc_id=pl.col("id").cast(pl.Int64, strict=False),
                metric=pl.col("name").cast(pl.String),
            ),
            on="pmc_id",
        )
        timed = self._kernels.select("event_id", "agent", "start_ns", "end_ns").drop_nulls(
            "event_id"
        )
        found = joined.join(timed, on="event_id", maintain_order="left")
        self.lost_counts = max(values.height - found.drop_nulls(["metric", "value"]).height, 0)
        return found.select("metric", "agent", "start_ns", "end_ns", "value")

    def list_threads(self) -> pl.DataFrame:
        """The threads that the file knows of."""
        rows = self._rows("info_thread", ["pid", "tid", "name"])
        frame = rows.select(
            pid=pl.col("pid").cast(pl.Int64, strict=False),
            tid=pl.col("tid").cast(pl.Int64, strict=False),
            thread_name=pl.col("name").cast(pl.String),
        )
        known = frame.with_columns(_name_real("pid", self._processes)).drop_nulls(["pid", "tid"])
        self.lost_threads = frame.height - known.height
        return known

    def find_host(self) -> str | None:
        """The name of the machine."""
        names = self._rows("info_node", ["hostname"]).get_column("hostname").drop_nulls()
        return str(names[0]) if names.len() else None

    def _list_gpus(self) -> dict[int, dict[str, Any]]:
        """GPUs by their agents' numbers, in the order of the machine's GPUs."""
        names = ["id", "type", "type_index", "vendor_name", "product_name", "name", "extdata"]
        found = []
        for row in self._rows("info_agent", names).iter_rows(named=True):
            if row["type"] != "GPU" or not isinstance(row["id"], int):
                continue
            try:
                more = json.loads(row["extdata"] or "{}")
            except (ValueError, TypeError, RecursionError):
                more = {}
            said = {k: v for k, v in row.items() if v not in (None, "")}
            facts = _rocm.describe_agent((more if isinstance(more, dict) else {}) | said)
            place = row["type_index"] if isinstance(row["type_index"], int) else row["id"]
            found.append((place, row["id"], facts))
        return {agent: facts for _, agent, facts in sorted(found, key=lambda f: f[:2])}

    def _list_messages(self) -> dict[int, str]:
        """What the program wrote to its markers, by event."""
        kinds = zip(self._text_ids.to_list(), self._texts.to_list(), strict=True)
        found = {}
        for number, kind in kinds:
            if number is None or _rocm.name_layer(kind) != "annotation":
                continue
            rows = self._rows("event", ["id", "extdata"], where={"category_id": number})
            for event, text in rows.iter_rows():
                try:
                    message = json.loads(text or "{}").get("message")
                except (ValueError, TypeError, AttributeError, RecursionError):
                    continue
                if isinstance(event, int) and isinstance(message, str):
                    found[event] = message
        return found

    def _timed(self, table: str, *wanted: str) -> pl.DataFrame:
        """Rows with start_ns, end_ns, pid, tid, agent, queue_id, stream_id, correlation_id.

        Of either version of the schema; also event_id, category_id and what is wanted.
        """
        placed = ("pid", "tid", "agent_id", "queue_id", "stream_id")
        timed = ("start", "end", "start_id", "end_id", "timestamp", "timestamp_id", "track_id")
        frame = self._ints(table, tuple(dict.fromkeys([*wanted, *placed, *timed, "event_id"])))
        known, values = self._times.get_column("id"), self._times.get_column("value")
        at_track = find_rows(self._tracks.get_column("id"), frame.get_column("track_id"))
        at_event = find_rows(self._events.get_column("id"), frame.get_column("event_id"))

        def moment(*names: str) -> pl.Expr:
            columns = [frame.get_column(n) for n in names if not n.endswith("_id")]
            columns += [
                values.gather(find_rows(known, frame.get_column(n)))
                for n in names
                if n.endswith("_id")
            ]
            return pl.coalesce(*(pl.lit(c) for c in columns))

        frame = frame.with_columns(
            pl.coalesce(name, pl.lit(self._tracks.get_column(name).gather(at_track)))
            for name in placed
        ).with_columns(
            start_ns=moment("start", "timestamp", "start_id", "timestamp_id"),
            end_ns=moment("end", "timestamp", "end_id", "timestamp_id"),
            correlation_id=self._events.get_column("stack_id").gather(at_event),
            category_id=self._events.get_column("category_id").gather(at_event),
            agent=pl.col("agent_id"),
        )
        return frame.with_columns(_name_real("pid", self._processes), _name_real("tid", self._tids))

    def _pairs(self, table: str, column: str) -> dict[int, int]:
        rows = self._rows(table, ["id", column]).iter_rows()
        return {i: v for i, v in rows if type(i) is int and type(v) is int and i != v}

    def _text(self, frame: pl.DataFrame, column: str) -> pl.Series:
        row = find_rows(self._text_ids, frame.get_column(column))
        return self._texts.gather(row)

    def _ints(self, table: str, wanted: tuple[str, ...]) -> pl.DataFrame:
        return self._db.ints(f"rocpd_{table}{self._ending}", wanted)

    def _rows(
        self, table: str, wanted: list[str], where: dict[str, int] | None = None
    ) -> pl.DataFrame:
        return self._db.rows(f"rocpd_{table}{self._ending}", wanted, where)
