"""A report's events and facts as the tables that nsys would export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.protobuf import DamagedMessageError
from sightline.formats.nvidia._nsys.codes import (
    NVTX_DOMAIN,
    NVTX_THREAD_NAME,
    mask_process,
    name_process,
)
from sightline.formats.nvidia._nsys.database import Database
from sightline.formats.nvidia._nsys.folder import write_real
from sightline.formats.nvidia._nsys.report import facts, mpi
from sightline.formats.nvidia._nsys.report.container import (
    open_container,
    read_block,
    read_delimited,
)
from sightline.formats.nvidia._nsys.report.events import EventTables
from sightline.formats.nvidia._nsys.report.messages import MESSAGES
from sightline.formats.nvidia._nsys.report.payloads import PayloadSchemas, write_payload

_NVTX, _PROCESSES = "NVTX_EVENTS", "PROCESSES"
_EXPORT = "Read the export instead:  nsys export --type sqlite REPORT.nsys-rep"
_PUSH_POP = 59  # NVTX_EVENTS.eventType


class ReportDatabase(Database):
    """A report, opened. Raises DamagedError where its events cannot be found."""

    form = "an Nsight Systems report"
    loss = "could only be read in part"
    again = "Copy the report again from where it was recorded, or record again."
    cut_loss = "events after the cut are missing, and all names, which come last in a report"

    def __init__(self, path: Path, given: str) -> None:
        self.lost = {}
        self.malformed = {}
        self._container = open_container(path, given)
        # A report that is whole says where its events end; one that is cut, how many there were.
        most = self._container.counts.events if self._container.is_cut else 2**63
        self._events = EventTables(path, *self._container.events, most)
        self._read_rest()
        self.cut_off = self._events.counted["cut"] or self._strings is None

    def close(self) -> None:
        """Nothing is kept open."""

    def _read_rest(self) -> None:
        """What comes after the events: the string table, names of threads, the hardware."""
        container, end = self._container, self._container.end
        self._thread_names, self._hardware = MESSAGES["ThreadNames"](), MESSAGES["Hardware"]()
        self._strings = None
        is_there = self._events.counted["events"] >= container.counts.events
        if container.strings or is_there:
            at = container.strings or self._events.counted["position"]
            found = read_block(container.path, at, end, "Strings")
            if found:
                self._strings, at = found
                try:
                    self._thread_names, at = read_delimited(container.path, at, end, "ThreadNames")
                    self._hardware, _ = read_delimited(container.path, at, end, "Hardware")
                except DamagedMessageError as error:
                    self.lost["ThreadNames"] = str(error)
        schemas = None
        if container.payload_schemas:
            schemas = read_block(container.path, container.payload_schemas, end, "PayloadSchemas")
        self._schemas = PayloadSchemas(schemas[0] if schemas else MESSAGES["PayloadSchemas"]())

    @property
    def tables(self) -> list[str]:
        """Names of all tables that have rows, in order."""
        return sorted({*self._small, *self._events.kinds})

    def columns(self, table: str) -> list[str]:
        """Names of a table's columns; none where there is no such table."""
        if table in self._small:
            return self._small[table].columns
        return [name for name in self._events.kinds.get(table, ()) if not name.startswith("_")]

    def is_integer(self, table: str, column: str) -> bool:
        """Whether a column holds integers."""
        if table in self._small:
            return self._small[table].schema.get(column) == pl.Int64
        return self._events.kinds.get(table, {}).get(column) in ("number", "chain")

    def ints(self, table: str, wanted: Sequence[str]) -> pl.DataFrame:
        """Integer columns of a table; those that it lacks are null.

        A table that lacks its first wanted column, or is absent, has no rows.
        """
        return self._complete(table, wanted, lambda have: self._read(table, have))

    def take_ints(self, table: str, wanted: Sequence[str], narrow: Sequence[str]) -> pl.DataFrame:
        """As `ints`, of a table of events, once; those in `narrow` no wider than they need."""
        return self._complete(table, wanted, lambda have: self._events.take(table, have, narrow))

    def _complete(
        self, table: str, wanted: Sequence[str], read: Callable[[list[str]], pl.DataFrame]
    ) -> pl.DataFrame:
        if wanted[0] not in self.columns(table):
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.Int64))
        frame = read([c for c in wanted if self.is_integer(table, c)])
        lacking = [pl.lit(None, pl.Int64).alias(c) for c in wanted if c not in frame.columns]
        return frame.with_columns(lacking).select(wanted)

    def rows(
        self, table: str, wanted: Sequence[str], where: Mapping[str, int] | None = None
    ) -> pl.DataFrame:
        """Columns of any type; for small tables and for texts.

        `where`: only rows with these values in these columns; none where such a column is missing.
        """
        have, where = self.columns(table), where or {}
        present = [c for c in wanted if c in have]
        if not present or not all(c in have for c in where):
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        frame = self._read(table, [*present, *(c for c in where if c not in present)])
        frame = frame.filter(pl.lit(value=True), *(pl.col(c) == v for c, v in where.items()))
        found = [self._decode(table, frame.get_column(c)) for c in present]
        lacking = [pl.lit(None).alias(c) for c in wanted if c not in present]
        return pl.DataFrame(found).with_columns(lacking).select(wanted)

    def texts(self, table: str, column: str) -> pl.DataFrame:
        """rowid and the text of the rows that have one, in columns `rowid` and `text`."""
        if column not in self.columns(table):
            return pl.DataFrame(schema={"rowid": pl.Int64, "text": pl.String})
        found = self._number_rows(table, column)
        values = self._decode(table, found.get_column(column))
        if values.dtype == pl.Float64:
            values = pl.Series([write_real(v) for v in values], dtype=pl.String)
        return found.select("rowid", text=values.cast(pl.String))

    def rowids(self, table: str) -> pl.Series:
        """The rows' own numbers, from 1, in the order of `ints`."""
        return pl.int_range(1, self.count(table) + 1, dtype=pl.Int64, eager=True)

    def blobs(self, table: str, column: str) -> Iterator[tuple[int, bytes]]:
        """rowid and bytes of the rows that have some."""
        if self._events.kinds.get(table, {}).get(column) != "bytes":
            return
        found = self._number_rows(table, column, "_schemaId").select("rowid", column, "_schemaId")
        for rowid, code, schema in found.iter_rows():
            yield rowid, write_payload(schema or 0, self._events.payloads[code - 1])

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is absent."""
        if table in self._small:
            return self._small[table].height
        if table == _NVTX and self._is_mpi is not None:
            return int((~self._is_mpi).sum())
        return self._events.count(table)

    @property
    def unknown_events(self) -> dict[tuple[int, int], int]:
        """How many events of which type and payload were skipped."""
        return self._events.counted["unknown"]

    @property
    def limits(self) -> list[Quality]:
        """What of the events could not be read."""
        counted = self._events.counted
        found = []
        if self.unknown_events:
            kinds = ", ".join(map(str, sorted({kind for kind, _ in self.unknown_events})))
            text = f"events of unknown types were skipped (types {kinds})"
            number = sum(self.unknown_events.values())
            found.append(Quality("unknown_events", "warning", text, number, _EXPORT))
        if counted["damaged_blocks"]:
            text = "damaged blocks of the report, each of up to 7,000 events, were skipped"
            found.append(
                Quality("damaged_blocks", "error", text, counted["damaged_blocks"], self.again)
            )
        if counted["damaged_events"]:
            text = "damaged events were skipped"
            found.append(
                Quality("damaged_events", "error", text, counted["damaged_events"], self.again)
            )
        if counted["too_many"]:
            text = "the report claims more events than its size can hold: the rest was left out"
            found.append(Quality("too_many_events", "error", text, None, self.again))
        return found

    def _read(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of a table, whole numbers in place of an event's own texts."""
        if table in self._small:
            return self._small[table].select(columns)
        frame = self._events.read(table, columns)
        if table == _NVTX and self._is_mpi is not None:
            return frame.filter(~self._is_mpi)
        return frame

    def _decode(self, table: str, values: pl.Series) -> pl.Series:
        return values if table in self._small else self._events.decode(table, values)

    def _number_rows(self, table: str, *columns: str) -> pl.DataFrame:
        """The rows that have a value in the first column, with `rowid`."""
        frame = self._read(table, columns).with_columns(rowid=self.rowids(table))
        return frame.drop_nulls(columns[0])

    @cached_property
    def _small(self) -> dict[str, pl.DataFrame]:
        """The tables that are made of few messages; those without a row are left out."""
        session, hardware = self._container.session, self._hardware
        tables = {
            "StringIds": facts.list_strings(self._strings, self._container.counts.strings),
            "ProcessStreams": facts.list_printed(self._strings),
            "ThreadNames": facts.list_thread_names(self._thread_names),
            "META_DATA_EXPORT": facts.describe_export(self._container),
            "META_DATA_CAPTURE": facts.describe_capture(session),
            "TARGET_INFO_SESSION_START_TIME": facts.find_start(self._container),
            "ANALYSIS_DETAILS": facts.find_span(session),
            "TARGET_INFO_GPU": facts.list_gpus(hardware),
            "TARGET_INFO_CUDA_DEVICE": facts.list_cuda_devices(hardware),
            "TARGET_INFO_CUDA_CONTEXT_INFO": facts.list_contexts(hardware),
            "TARGET_INFO_CUDA_STREAM": facts.list_streams(hardware),
            "TARGET_INFO_NIC_INFO": facts.list_nics(session),
            "TARGET_INFO_SYSTEM_ENV": facts.list_system(session),
            "NVTX_PAYLOAD_SCHEMA_ENTRIES": self._schemas.list_entries(),
        }
        if _PROCESSES in self._events.kinds:
            tables[_PROCESSES] = self._list_processes()
        if self._is_mpi is not None:
            calls = self._events.read(_NVTX, mpi.WANTED).filter(self._is_mpi)
            tables |= mpi.list_events(calls, self._events.payloads, self._schemas)
            tables |= mpi.list_ranks(self._list_thread_marks(), self._schemas)
        return {name: frame for name, frame in tables.items() if frame.height}

    def _list_processes(self) -> pl.DataFrame:
        """Processes that have a name or an executable's, each once."""
        frame = self._events.read(_PROCESSES, ["globalPid", "name", "_executable"])
        names = [
            self._events.decode(_PROCESSES, frame.get_column(c)) for c in ("name", "_executable")
        ]
        named = frame.select("globalPid", pid=name_process("globalPid"), name=pl.coalesce(*names))
        return named.drop_nulls().unique("globalPid", keep="first", maintain_order=True)

    def _list_thread_marks(self) -> pl.DataFrame:
        """The names that NVTX gives threads: globalTid and text."""
        frame = self._events.read(_NVTX, ["globalTid", "eventType", "text"])
        frame = frame.filter(pl.col("eventType") == NVTX_THREAD_NAME)
        return frame.select("globalTid", self._events.decode(_NVTX, frame.get_column("text")))

    @cached_property
    def _is_mpi(self) -> pl.Series | None:
        """Which NVTX events are MPI calls; None where none is."""
        domain = self._events.find_text(mpi.DOMAIN)
        if domain is None or _NVTX not in self._events.kinds:
            return None
        frame = self._events.read(_NVTX, ["eventType", "globalTid", "domainId", "text"])
        frame = frame.select("eventType", "domainId", "text", process=mask_process("globalTid"))
        named = (pl.col("eventType") == NVTX_DOMAIN) & (pl.col("text") == domain)
        domains = frame.filter(named).select("process", "domainId", theirs=True).unique()
        joined = frame.join(domains, on=["process", "domainId"], how="left", maintain_order="left")
        is_call = (pl.col("eventType") == _PUSH_POP) & pl.col("theirs").fill_null(value=False)
        calls = joined.select(is_call).to_series()
        return calls if calls.any() else None
