"""The history in a snapshot: every allocation, free and segment, with the sums after each.

An event holds what the program asked for, and no sum. The sums are counted from what the segments
held when the snapshot was made, back to the first event: what was allocated before the history
begins is part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import polars as pl

from sightline._native import Ledger, Pickle, PickleRows
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.model import parts
from sightline.core.model.declare import Imported, Quality
from sightline.core.units import INT64_MAX
from sightline.formats._memory_ledger import note_lost_events
from sightline.formats.pytorch.torch_snapshot.texts import Decoder

_KEYS = [
    ("action", "text"), ("addr", "number"), ("size", "number"), ("stream", "number"),
    ("time_us", "number"), ("frames", "stack"), ("device_free", "number"), ("pool_id", "text"),
    ("user_metadata", "text"), ("compile_context", "text"),
]  # fmt: skip
# The first pass finds sums, and all stacks and texts; other numbers can wait.
_FIRST_KEYS = [(key, "skip" if key == "stream" else kind) for key, kind in _KEYS]
_ANNOTATION = [("stage", "text"), ("name", "text"), ("device", "number"), ("time_us", "number")]
# What native/passes/ledger.h makes of an action.
_CODES = {
    "alloc": 0, "free_requested": 1, "free_completed": 2, "free": 2, "segment_alloc": 3,
    "segment_map": 3, "segment_free": 4, "segment_unmap": 4,
}  # fmt: skip
_NO_CODE = 5
_SUMS = ("allocated", "active", "reserved")
_MOST_US = INT64_MAX // 1000
# What texts are called in the table. torch writes N/A where no region is compiled
# (torch/csrc/cuda/memory_snapshot.cpp).
_RENAMED: dict[str, dict[str, str | None]] = {
    "action": {"free_completed": "free"},
    "pool_id": {},
    "user_metadata": {"": None},
    "compile_context": {"": None, "N/A": None},
    "_other": {},
}
# Columns of the table that most histories have no value for, and what they are made of.
_RARE = {
    "device_free_bytes": "device_free",
    "pool": "pool_id",
    "user_metadata": "user_metadata",
    "compile_context": "compile_context",
    "other": "_other",
}


@dataclass
class Trace:
    """The events of the devices, or of the host, one device after the other."""

    pickle: Pickle
    rows: PickleRows
    is_host: bool
    start_order: int  # the events before it, of other traces
    base: dict[int, dict[str, int | None]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # of the rare columns those that have values
    _ledger: Ledger = field(default_factory=lambda: Ledger(keeps_blocks=False))
    _texts: dict[str, pl.Series] = field(default_factory=dict)
    _codes: dict[int, int] = field(default_factory=dict)  # the ledger's, by the action's text

    def read_codes(
        self, start: int, count: int, keys: list[tuple[str, str]] = _KEYS
    ) -> pl.DataFrame:
        """Some events with their sums so far, counted from 0; to be asked for in order."""
        if start == 0:
            self._ledger = Ledger(keeps_blocks=False)
        found = unpack_columns(self.pickle.take(self.rows, keys, start, count))
        found = found.rename({"_parent": "device_id"})
        self._learn_actions(found)
        steps = found.select(
            "device_id",
            pl.col("action").replace_strict(self._codes, default=_NO_CODE, return_dtype=pl.Int64),
            "addr",
            pl.col("size").fill_null(0).clip(lower_bound=0),
        )
        return found.hstack(unpack_columns(self._ledger.add(pack_numbers(steps))))

    def _learn_actions(self, found: pl.DataFrame) -> None:
        """Remember what the codes of new actions mean."""
        codes = found.get_column("action").drop_nulls().unique()
        new = codes.filter(~codes.is_in(list(self._codes)))
        if new.len():
            actions = Decoder(self.pickle).decode(new)
            self._codes |= {c: _CODES.get(a, _NO_CODE) for c, a in zip(new, actions, strict=True)}

    def make_part(self, decoder: Decoder, start: int, count: int) -> pl.DataFrame:
        """Some rows of `memory_events`."""
        found = self.read_codes(start, count)
        time = pl.col("time_us")
        order = pl.int_range(pl.len(), dtype=pl.Int64) + start + self.start_order
        texts = self._name_texts(decoder, found)
        return found.select(
            time_ns=pl.when(time.is_between(0, _MOST_US)).then(time * 1000).otherwise(order),
            device_id=pl.lit(None, pl.Int64) if self.is_host else pl.col("device_id"),
            action=texts["action"],
            address="addr",
            bytes=pl.when(pl.col("size") >= 0).then("size"),
            **{f"{name}_bytes": pl.col(name) + self._find_offset(name) for name in _SUMS},
            memory_kind=pl.lit("pinned" if self.is_host else "device", pl.Categorical),
            stream_id="stream",
            stack_id="frames",
            device_free_bytes="device_free",
            pool=texts["pool_id"],
            user_metadata=texts["user_metadata"],
            compile_context=texts["compile_context"],
            other=texts["_other"],
        )

    def _find_offset(self, name: str) -> pl.Expr:
        """What was held before the first event, of the device of each event."""
        held = {device: sums[name] for device, sums in self.base.items()}
        if len(held) == 1:
            return pl.lit(next(iter(held.values())), pl.Int64)
        return pl.col("device_id").replace_strict(held, default=0, return_dtype=pl.Int64)

    def _name_texts(self, decoder: Decoder, found: pl.DataFrame) -> dict[str, pl.Series]:
        """The columns of texts as categories: a large history repeats few of them."""
        if not self._texts:
            self._texts = {k: decoder.make_categories(v) for k, v in _RENAMED.items()}
            action = self._texts["action"]
            self._texts["action"] = action.fill_null("unknown")
        return {
            name: texts.gather(found.get_column(name).fill_null(0))
            for name, texts in self._texts.items()
        }

    def find_base(self, final: pl.DataFrame) -> list[Quality]:
        """Go through all events once, and find what was held before the first."""
        last: dict[int, dict[str, int]] = {}
        most: dict[int, int] = {}  # active beyond reserved, both counted from 0
        untimed = 0
        for start in range(0, self.rows.rows, parts.ROWS_AT_ONCE):
            part = self.read_codes(start, parts.ROWS_AT_ONCE, _FIRST_KEYS)
            timed = part.get_column("time_us").is_between(0, _MOST_US).sum()
            untimed += part.height - int(timed)
            self.known |= {
                name for name, key in _RARE.items() if part[key].null_count() < part.height
            }
            for row in part.unique("device_id", keep="last").iter_rows(named=True):
                last[row["device_id"]] = row
            beyond = pl.col("active") - pl.col("reserved")
            for device, value in part.group_by("device_id").agg(beyond.max()).iter_rows():
                most[device] = max(value, most.get(device, value))
        earlier = unpack_columns(self._ledger.earlier())
        before = dict(earlier.select("device_id", "bytes").iter_rows())
        known = {row["device_id"]: row for row in final.iter_rows(named=True)}
        held: dict[int, dict[str, int]] = {}
        for device, row in last.items():
            end = known.get(None if self.is_host else device)
            held[device] = {
                name: before.get(device, 0) if end is None else end[name] - row[name]
                for name in _SUMS
            }
            if end is None:
                held[device]["reserved"] = 0
        negative = [device for device, sums in held.items() if min(sums.values()) < 0]
        # An allocator hands out no more than it has: else segments were taken unseen.
        lacking = [
            device
            for device, sums in held.items()
            if device not in negative and most[device] + sums["active"] > sums["reserved"]
        ]
        self.base = {
            device: {**sums, "reserved": None} if device in lacking else {**sums}
            for device, sums in held.items()
        }
        return self._check(int(earlier.get_column("blocks").sum()), untimed, negative, lacking)

    def _check(
        self, earlier: int, untimed: int, negative: list[int], lacking: list[int]
    ) -> list[Quality]:
        found = []
        if earlier:
            found.append(
                Quality(
                    "history_starts_late",
                    "warning",
                    "blocks were freed that were allocated before the history begins: it was "
                    "switched on later, or its oldest events were overwritten",
                    earlier,
                    "torch.cuda.memory._record_memory_history(max_entries=...) at the start of "
                    "the program, with more entries",
                )
            )
        if lacking:
            text = "devices hand out more than their segments hold: events of segments are missing"
            found.append(Quality("segment_events_missing", "warning", text, len(lacking)))
        if negative:
            found.append(
                Quality(
                    "history_disagrees",
                    "warning",
                    "devices' events do not lead to what their segments hold: sums over time may "
                    "be off by a constant",
                    len(negative),
                )
            )
        if untimed:
            text = "events have no time; their order is used instead"
            found.append(Quality("events_without_time", "warning", text, untimed))
        found += note_lost_events(self._ledger)
        if self.rows.is_cut:
            text = "more events are listed than the file can hold: the rest is left out"
            found.append(Quality("events_left_out", "error", text))
        return found


@dataclass
class Events:
    """All events of a snapshot."""

    traces: list[Trace]
    annotations: pl.DataFrame
    quality: list[Quality]
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(trace.rows.rows for trace in self.traces)

    def add_to(self, imported: Imported, decoder: Decoder) -> None:
        """Add the table `memory_events`, whole or as parts that are made while it is written."""
        annotations = decoder.decode_columns(self.annotations, "action", "name").with_columns(
            action=pl.when(pl.col("action") == "START")
            .then(pl.lit("range_start"))
            .otherwise(pl.lit("range_end"))
            .cast(pl.Categorical)
        )

        absent = set(_RARE).difference(*(trace.known for trace in self.traces))
        columns = [trace.make_part(decoder, 0, 0).drop(absent) for trace in self.traces]
        if annotations.height or not columns:
            columns.append(annotations.clear())
        empty = pl.concat(columns, how="diagonal")

        def make_part(start: int, count: int) -> pl.DataFrame:
            made = [empty]
            for trace in self.traces:
                if start < trace.rows.rows and count > 0:
                    made.append(trace.make_part(decoder, start, count).drop(absent))
                    count -= made[-1].height
                start = max(0, start - trace.rows.rows)
            if annotations.height and count > 0:
                made.append(annotations.slice(start, count))
            return pl.concat(made, how="diagonal")

        whole = self.rows + annotations.height
        if whole <= parts.ROWS_AT_ONCE:
            imported.tables["memory_events"] = make_part(0, whole)
        else:
            imported.large["memory_events"] = parts.make_in_parts(whole, partial(make_part))


def read_events(pickle: Pickle, final: pl.DataFrame) -> Events:
    """The events of all devices, of pinned host memory, and the program's annotations."""
    traces: list[Trace] = []
    quality: list[Quality] = []
    for key in ("device_traces", "host_traces"):
        order = sum(trace.rows.rows for trace in traces)
        trace = Trace(pickle, pickle.rows([key]), key == "host_traces", order)
        if trace.rows.rows:
            quality += trace.find_base(final)
            traces.append(trace)
    rows = pickle.rows(["external_annotations"])
    annotations = unpack_columns(pickle.take(rows, _ANNOTATION, 0, rows.rows)).select(
        time_ns=pl.col("time_us") * 1000, device_id="device", action="stage", name="name"
    )
    return Events(traces, annotations.drop_nulls("time_ns"), quality)
