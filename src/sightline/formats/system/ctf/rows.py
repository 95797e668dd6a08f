"""Events as rows of tables, by the rules of a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.model.tables import load_table
from sightline.formats.system.ctf.classes import EventClass, Metadata
from sightline.formats.system.ctf.decode import Reading, build_series, count_ns
from sightline.formats.system.ctf.mapping import EventRule, RowRule, Rule, find_rule, list_paths
from sightline.formats.system.ctf.plan import Choice, EventShape, Group, Plan, Shape, compile_plan

# Of a row that is no column of its table: when, where, and which event of the recording it was.
ROW = {
    "time": pl.Int64,
    "duration": pl.Int64,
    "side": pl.String,
    "key": pl.String,
    "event": pl.UInt64,
}
# What is computed with, and is in no table: of MPI calls (mpi.py).
OF_MPI = {"count": pl.Int64, "datatype": pl.Int64, "new_communicator": pl.Int64}
_TID, _PID, _NAME = ("vtid", "tid"), ("vpid", "pid"), ("procname",)
# Columns that tables.py asks for, whether a rule gives them or not. Others that no rule gives would
# only take memory.
_NEEDED = {
    *("name", "layer", "range_kind", "return_value", "device_id", "stream_id", "launch_id", "kind"),
    *("device", "thread_name", "switched_in"),
}
TIMELESS = ("call_sums",)  # tables whose rows have no time
_MOST_BATCHES = 64  # of small frames; then they are made one


@dataclass
class Rows:
    """Rows by table and kind, of all traces of a recording."""

    parts: dict[tuple[str, str], list[pl.DataFrame]] = field(default_factory=dict)
    timeless: int = 0

    def add(self, table: str, kind: str, frame: pl.DataFrame) -> None:
        """Add rows. Those of many small batches are joined now and then."""
        parts = self.parts.setdefault((table, kind), [])
        parts.append(frame)
        if len(parts) > _MOST_BATCHES:
            self.parts[table, kind] = [pl.concat(parts, how="diagonal_relaxed")]

    def measure_bytes(self) -> int:
        """How much memory the rows take, roughly."""
        return sum(int(part.estimated_size()) for parts in self.parts.values() for part in parts)

    def has(self, table: str) -> bool:
        """Whether there are rows of a table."""
        return any(name == table for name, _ in self.parts)

    def take(self, table: str, kind: str) -> pl.DataFrame:
        """All rows, in order of time. They are given up."""
        parts = self.parts.pop((table, kind), [])
        declared = {c.name: c.dtype for c in load_table(table).stored}
        needed = {name: dtype for name, dtype in declared.items() if name in _NEEDED}
        empty = pl.DataFrame(
            schema={**needed, **ROW, "cpu": pl.Int64, "pid": pl.Int64, "tid": pl.Int64}
        )
        return pl.concat([empty, *parts], how="diagonal_relaxed").sort(
            "time", "event", maintain_order=True
        )


@dataclass(frozen=True)
class Meaning:
    """What becomes of a trace's events: the plan that decodes them, and the rule of each."""

    metadata: Metadata
    plan: Plan
    rules: dict[tuple[int, int], EventRule]


def find_meaning(metadata: Metadata, rules: tuple[Rule, ...]) -> Meaning:
    """The plan and the rules for a trace's events. Raises MetadataError."""
    found = {key: find_rule(rules, event.name) for key, event in metadata.events.items()}

    def is_wanted(event: EventClass, name: str) -> bool:
        fields = found[event.stream_class, event.id].fields
        return name in fields or "*" in fields

    for stream in metadata.streams.values():
        if stream.clock in metadata.clocks:
            count_ns(metadata.clocks[stream.clock])  # refuses clocks whose times do not fit
    return Meaning(metadata, compile_plan(metadata, is_wanted), found)


def read_rows(
    rows: Rows, reading: Reading, meaning: Meaning, first_event: int, most_events: int
) -> Iterator[int | None]:
    """Read a stream into rows, batch by batch; each answer is the time that it has come to, in ns.

    None where no event had a time yet. Raises MetadataError, OSError.
    """
    packets = _Packets(meaning.plan)
    reached: int | None = None
    for batch in reading.read_batches(most_events):
        packets.add(batch.tables)
        latest = -1
        for shape in meaning.plan.events:
            if shape.table in batch.tables:
                event = shape.event
                rule = meaning.rules[event.stream_class, event.id]
                reader = _EventReader(meaning.metadata, shape, packets, batch.tables, first_event)
                _add_event_rows(rows, rule, reader)
                # Of the last event, not the latest: a damaged one may say any time.
                event_number, time = reader.find_last()
                if event_number > latest and time is not None:
                    latest, reached = event_number, time
        yield reached


def _add_event_rows(rows: Rows, rule: EventRule, reader: _EventReader) -> None:
    for row in rule.rows:
        frame = reader.build_row(row)
        if row.table not in TIMELESS and frame.get_column("time").null_count():
            timed = frame.drop_nulls("time")
            rows.timeless += frame.height - timed.height
            frame = timed
        rows.add(row.table, row.kind, frame)
    names = reader.list_names()
    if names is not None:
        rows.add("threads", "mark", names)


class _Packets:
    """Fields of packets' contexts, by packet."""

    def __init__(self, plan: Plan) -> None:
        self._contexts = dict(plan.contexts.values())
        self._fields: dict[str, pl.DataFrame] = {}

    def add(self, tables: Mapping[int, pl.DataFrame]) -> None:
        # Events come in the order of their packets: those before this batch's are not asked for.
        named = [f.get_column("packet").min() for f in tables.values() if "packet" in f.columns]
        oldest = min((n for n in named if isinstance(n, int)), default=0)
        self._fields = {
            name: known.filter(pl.col("packet") >= oldest) for name, known in self._fields.items()
        }
        for table, group in self._contexts.items():
            frame = tables.get(table)
            if frame is None:
                continue
            for name, shape in group.members:
                values = build_series(shape, frame, dict(tables))
                if values is None:
                    continue
                part = pl.DataFrame({"packet": frame.get_column("packet"), "value": values})
                known = self._fields.get(name)
                joined = part if known is None else pl.concat([known, part], how="vertical_relaxed")
                self._fields[name] = joined

    def find(self, name: str, packets: pl.Series) -> pl.Series | None:
        known = self._fields.get(name)
        if known is None:
            return None
        found = packets.to_frame("packet").join(
            known, on="packet", how="left", maintain_order="left"
        )
        return found.get_column("value")


class _EventReader:
    """The fields of a batch of events of one class."""

    def __init__(
        self,
        metadata: Metadata,
        shape: EventShape,
        packets: _Packets,
        tables: dict[int, pl.DataFrame],
        first_event: int,
    ) -> None:
        self._frame = tables[shape.table]
        self._tables = tables
        self._packets = packets
        self._metadata = metadata
        self._payload = shape.payload
        self._contexts = (shape.specific, shape.common)
        self._first_event = first_event
        clock = metadata.streams[shape.event.stream_class].clock
        self._clock = None if clock is None else metadata.clocks.get(clock)

    def build_row(self, row: RowRule) -> pl.DataFrame:
        """The events as rows, with what `ROW` names."""
        types = {c.name: c.dtype for c in load_table(row.table).stored}
        types |= OF_MPI if row.table == "mpi_events" else {}
        columns = self._take_columns(types) if "*" in row.values else {}
        for name, value in row.values.items():
            dtype = types.get(name, ROW.get(name))
            if dtype is not None:
                columns[name] = self._evaluate(value).cast(dtype, strict=False).alias(name)
        if "time" not in columns:
            columns["time"] = self._time()
        columns["event"] = self._frame.get_column("event") + self._first_event
        for name, fields in (("pid", _PID), ("tid", _TID), ("cpu", ("cpu_id",))):
            if name not in columns:
                found = self._find_context(fields)
                if found is not None:
                    columns[name] = found.cast(pl.Int64, strict=False).alias(name)
        return pl.DataFrame(list(columns.values()))

    def _take_columns(self, types: Mapping[str, Any]) -> dict[str, pl.Series]:
        """The fields that are named as the table's columns are."""
        found = {name: self._find(self._payload, name) for name in types}
        return {
            name: values.cast(types[name], strict=False).alias(name)
            for name, values in found.items()
            if values is not None
        }

    def list_names(self) -> pl.DataFrame | None:
        """Threads with the names that the events' context gives them."""
        name, tid = self._find_context(_NAME), self._find_context(_TID)
        pid = self._find_context(_PID)
        if name is None or tid is None or pid is None:
            return None
        named = pl.DataFrame(
            {
                "pid": pid.cast(pl.Int64),
                "tid": tid.cast(pl.Int64),
                "thread_name": name.cast(pl.String),
            }
        )
        found = named.unique(maintain_order=True)
        return found.with_columns(time=pl.lit(0, pl.Int64), event=pl.lit(0, pl.UInt64))

    def find_last(self) -> tuple[int, int | None]:
        """The last event's number and its time in ns; None where their stream has no clock."""
        last = self._frame.tail(1)
        if self._clock is None:
            return last.item(0, "event"), None
        return last.item(0, "event"), last.select(count_ns(self._clock)).item()

    def _time(self) -> pl.Series:
        if self._clock is None:
            return pl.Series("time", [None], dtype=pl.Int64).new_from_index(0, self._frame.height)
        return self._frame.select(time=count_ns(self._clock)).get_column("time")

    def _evaluate(self, value: Any) -> pl.Series:
        """The value of a rule for each event: a constant, a field, or a field by a table."""
        if isinstance(value, Mapping):
            return self._convert(self._evaluate(value.get("field")), value)
        if isinstance(value, str) and value == "$*":
            return self._encode_payload()
        paths = list_paths(value)
        if not paths:
            return pl.Series([value]).new_from_index(0, self._frame.height)
        values: pl.Series | None = None
        for path in paths:
            found = self._find(self._payload, path)
            found = self._find_context((path,)) if found is None else found
            if values is None:
                values = found
            elif found is not None:  # another option of a variant
                values = pl.select(pl.coalesce(values, found)).to_series()
            if values is not None and not values.null_count():
                return values
        if values is not None:
            return values
        return pl.Series([None]).new_from_index(0, self._frame.height)

    def _convert(self, values: pl.Series, rule: Mapping[str, Any]) -> pl.Series:
        frame = values.to_frame("value")
        if "values" in rule or "bits" in rule:
            return frame.select(_name_number(rule)).to_series()
        if "matches" in rule:
            text = pl.col("value").cast(pl.String, strict=False)
            named = [
                pl.when(text.str.contains(pattern)).then(pl.lit(str(name)))
                for pattern, name in rule["matches"].items()
            ]
            return frame.select(pl.coalesce(named)).to_series()
        if rule.get("hexadecimal"):
            digits = pl.col("value").map_elements(
                lambda value: f"0x{value:x}", return_dtype=pl.String
            )
            return frame.select(digits).to_series()
        return values

    def _encode_payload(self) -> pl.Series:
        built = {
            name: build_series(shape, self._frame, self._tables)
            for name, shape in self._payload.members
        }
        kept = [values.alias(name) for name, values in built.items() if values is not None]
        if not kept:
            return pl.Series([None], dtype=pl.String).new_from_index(0, self._frame.height)
        return pl.DataFrame(kept).to_struct().struct.json_encode()

    def _find_context(self, names: tuple[str, ...]) -> pl.Series | None:
        for name in names:
            for group in self._contexts:
                found = self._find(group, name)
                if found is not None:
                    return found
            found = self._packets.find(name, self._frame.get_column("packet"))
            if found is not None:
                return found
            if name in self._metadata.environment:
                value = self._metadata.environment[name]
                return pl.Series([value]).new_from_index(0, self._frame.height)
        return None

    def _find(self, group: Group, path: str) -> pl.Series | None:
        shape: Shape | None = group
        for name in path.split("."):
            shape = _find_member(shape, name)
        return None if shape is None else build_series(shape, self._frame, self._tables)


def _find_member(shape: Shape | None, name: str) -> Shape | None:
    """A member of a structure or an option of a variant; TSDL may put an underscore before both."""
    if isinstance(shape, Group):
        return dict(shape.members).get(name)
    if isinstance(shape, Choice):
        options = dict(shape.options)
        return options.get(name, options.get(f"_{name}"))
    return None


def _name_number(rule: Mapping[str, Any]) -> pl.Expr:
    """The text of a number: that of its value, else that of the first of its bits that is set."""
    number = pl.col("value").cast(pl.Int64, strict=False)
    known = {int(value): str(text) for value, text in rule.get("values", {}).items()}
    whole = number.replace_strict(known, default=None, return_dtype=pl.String)
    bits = [
        pl.when((number & int(bit)) != 0).then(pl.lit(str(text)))
        for bit, text in rule.get("bits", {}).items()
    ]
    return pl.coalesce(whole, *bits) if known else pl.coalesce(bits)
