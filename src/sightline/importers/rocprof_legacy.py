"""AMD's profilers before rocprofv3: rocprof's CSV and SQLite, texts of rocprofv2 and roctracer.

Format: ROCm/rocm-systems, projects/rocprofiler (rocprof's columns; rocprofv2's plug-in for files)
and projects/roctracer (src/tracer_tool). Times are ns of the machine's clock. They name no GPU but
by number, and no process where the text has none.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from sightline.errors import DamagedError
from sightline.importers import _rocm
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="rocprof_legacy",
    label="AMD rocprof, rocprofv2 or roctracer (CSV, SQLite, text)",
    strong=(
        rb'^(?:\xef\xbb\xbf)?"?Index"?,"?KernelName"?,',
        rb"^SQLite format 3\x00.*CREATE TABLE KERN ?\(",
        rb"(?:^|\n)\d{9,19}:\d{9,19} \d+:\d+ [A-Za-z_]",
        rb"(?:^|\n)\d{9,19} \d+:\d+ [0-4]:\d+:\"",
        rb"(?:^|\n)\s*:\w+\s*: correlation_id\(\d+\) time_ns\(\d+:\d+\)",
        rb"(?:^|\n)Dispatch_ID\(\d+\), GPU_ID\(\d+\), ",
        rb"(?:^|\n)Domain\([A-Z_]+\), (?:Function|Operation_Name|Kernel_Name|Timestamp)\(",
    ),
    weak=(),
    looks_like="CSV with Index, KernelName; SQLite with a table KERN; lines such as "
    "START:END PID:TID CALL",
    suffixes=(".csv", ".db", ".txt"),
    version=1,
    source="https://rocm.docs.amd.com/projects/rocprofiler",
)

_NUMBER = r"(\d{1,19})"
# roctracer: calls and work on a device (there the two numbers are device and queue), and marks.
_SPAN = re.compile(rf"^{_NUMBER}:{_NUMBER} (\d{{1,9}}):(\d{{1,9}}) (.+)$")
# Copies as HSA's profiler sees them: without a device, and with a number of their own.
_ASYNC = re.compile(rf"^{_NUMBER}:{_NUMBER} (async-copy):\d{{1,19}}:(\d{{1,9}})$")
_WORK = re.compile(rf"^(.+):{_NUMBER}:(\d{{1,9}})$")
_CALL = re.compile(rf"^(\w+)\((.*)\)(?: = [^:]*?)? ?(?::{_NUMBER})?$")
_MARK = re.compile(rf'^{_NUMBER} (\d{{1,9}}):(\d{{1,9}}) ([0-4]):{_NUMBER}:"(.*)"$')
_ACTIVITY = re.compile(
    rf"^\s*:(\w+)\s*: correlation_id\({_NUMBER}\) time_ns\({_NUMBER}:{_NUMBER}\)"
)
_FIELD = re.compile(r'(\w+)\((?:"(.*?)"|(.*?))\)(?:, |,?\s*$)')
_COPY = re.compile(r"Copy|COPY")
_DIRECTIONS = {
    "CopyHostToDevice": "HOST_TO_DEVICE",
    "CopyDeviceToHost": "DEVICE_TO_HOST",
    "CopyDeviceToDevice": "DEVICE_TO_DEVICE",
}
# rocprof's columns, and rocprofv2's fields, by ours.
_DISPATCH = {
    "start_ns": ("BeginNs", "Begin_Timestamp"),
    "end_ns": ("EndNs", "End_Timestamp"),
    "pid": ("pid", "Process_ID"),
    "agent": ("gpu-id", "GPU_ID"),
    "queue_id": ("queue-id", "Queue_ID"),
    "correlation_id": ("Correlation_ID",),
    "work_items_x": ("grd", "Grid_Size"),
    "workgroup_x": ("wgr", "Workgroup_Size"),
    "lds_bytes": ("lds", "LDS"),
    "scratch_bytes": ("scr", "Scratch_Size"),
}
_VGPRS = (("arch_vgpr", "Arch_VGPR"), ("accum_vgpr", "Accumulative_VGPR"))
_NO_COUNTERS = {
    "index", "kernelname", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds",
    "scr", "arch_vgpr", "accum_vgpr", "vgpr", "sgpr", "wave_size", "sig", "obj", "dispatchns",
    "beginns", "endns", "completens", "durationns", "dispatch_id", "gpu_id", "queue_id",
    "process_id", "thread_id", "grid_size", "workgroup_size", "scratch_size", "accumulative_vgpr",
    "kernel_name", "begin_timestamp", "end_timestamp", "correlation_id", "record_id",
}  # fmt: skip
Row = dict[str, Any]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records. Raises DamagedError where there is none."""
    with source.open() as stream:
        is_database = stream.read(16).startswith(b"SQLite format 3")
    notes: list[Quality] = []
    records = _Records()
    if is_database:
        for row in _list_database(source, notes):
            records.add_dispatch(row)
    else:
        text = read_text(source, notes)
        if text.lstrip('"').startswith("Index"):
            _read_table(text, records, notes)
        else:
            for line in text.splitlines():
                records.add_line(line)
    records.close_ranges()
    if not (records.dispatches or records.copies or records.regions):
        raise DamagedError(
            f"cannot read {source.given}",
            why="no record of it is whole",
            hint="Record a timeline:  rocprofv3 --sys-trace -- PROGRAM",
        )
    notes += note_bad_lines(records.bad, "record")
    return _rocm.build_tables(records.finish(), Recording("rocprof"), notes)


class _Records:
    """What was read so far."""

    def __init__(self) -> None:
        self.dispatches: list[Row] = []
        self.copies: list[Row] = []
        self.regions: list[Row] = []
        self.counts: list[Row] = []
        self.bad = 0
        self._open: dict[tuple[int | None, int | None], list[Row]] = {}
        self._started: dict[tuple[int | None, int], list[Row]] = {}
        self._last = 0

    def add_line(self, line: str) -> None:
        """A line of a text; what is no record is the program's own output."""
        if line.startswith(("Domain(", "Dispatch_ID(", "Record(")):
            self._add_fields(line)
        elif line[:1].isdigit() and (found := _SPAN.match(line)):
            self._add_span(found)
        elif line[:1].isdigit() and (found := _ASYNC.match(line)):
            times = {"start_ns": _whole(found[1]), "end_ns": _whole(found[2])}
            self.copies.append({**times, "name": found[3], "pid": int(found[4])})
        elif line[:1].isdigit() and (found := _MARK.match(line)):
            when, pid, tid, kind, number = (_whole(found[i]) for i in range(1, 6))
            self._mark(when, pid, tid, kind or 0, number, found[6])
        elif found := _ACTIVITY.match(line):
            times = {"start_ns": _whole(found[3]), "end_ns": _whole(found[4])}
            self._add_work(found[1], {**times, "correlation_id": _whole(found[2])}, found[1])

    def _add_span(self, found: re.Match[str]) -> None:
        times = {"start_ns": _whole(found[1]), "end_ns": _whole(found[2])}
        first, second = int(found[3]), int(found[4])
        call, work = _CALL.match(found[5]), _WORK.match(found[5])
        # A kernel's name has brackets, too: of work the process stands behind the correlation id.
        if work is not None and not found[5].endswith(")"):
            known = {**times, "correlation_id": _whole(work[2]), "pid": int(work[3])}
            self._add_work(work[1], known | {"agent": first, "queue_id": second}, work[1])
        elif call is not None:
            place = {"pid": first, "tid": second, "correlation_id": _whole(call[3])}
            self.regions.append({**times, **place, "category": _domain(call[1]), "name": call[1]})
        else:
            self.bad += 1

    def _add_work(self, name: str, known: Row, label: str) -> None:
        """A kernel or copy on a device; of activities without one, calls of the host, too."""
        if _COPY.search(name) and "(" not in name:
            direction = _DIRECTIONS.get(name)
            ends = {
                "src_agent": known.get("agent") if direction != "HOST_TO_DEVICE" else None,
                "dst_agent": known.get("agent") if direction != "DEVICE_TO_HOST" else None,
            }
            self.copies.append({**known, **ends, "name": direction or name})
        elif name.startswith(("hip", "hsa_", "__hip")) and "agent" not in known:
            self.regions.append({**known, "category": _domain(name), "name": label})
        else:
            self.dispatches.append({**known, "name": name})

    def _add_fields(self, line: str) -> None:
        """A line of rocprofv2: fields with their values in brackets."""
        fields = {name: quoted or plain for name, quoted, plain in _FIELD.findall(line)}
        domain = fields.get("Domain", "")
        times = {
            "start_ns": _whole(fields.get("Start_Timestamp", "")),
            "end_ns": _whole(fields.get("End_Timestamp", "")),
            "correlation_id": _whole(fields.get("Correlation_ID", "")),
        }
        if "Dispatch_ID" in fields and "Begin_Timestamp" in fields:
            self.add_dispatch(fields)
        elif domain == "ROCTX_DOMAIN":
            self._mark_v2(fields)
        elif "Function" in fields:
            self.regions.append({**times, "category": domain, "name": fields["Function"]})
        elif "Kernel_Name" in fields:
            self.dispatches.append({**times, "agent": 0, "name": fields["Kernel_Name"]})
        elif "Operation_Name" in fields:
            self._add_work(fields["Operation_Name"], times, fields["Operation_Name"])
        else:
            self.bad += 1

    def _mark_v2(self, fields: dict[str, str]) -> None:
        """rocprofv2 writes no kinds: marks and ranges begin their messages so."""
        message, number = fields.get("ROCTX_Message"), _whole(fields.get("ROCTX_ID", ""))
        when = _whole(fields.get("Timestamp", ""))
        if message is None:
            kind = 4 if number else 2
        else:
            kind = 0 if message.startswith("ROCTX-MARK") else (3 if number else 1)
        plain = re.sub(r"^ROCTX-(?:MARK|RANGE): ", "", message or "")
        self._mark(when, None, None, kind, number, plain)

    def _mark(
        self,
        when: int | None,
        pid: int | None,
        tid: int | None,
        kind: int,
        number: int | None,
        message: str,
    ) -> None:
        """A roctx record: 0 mark, 1 push, 2 pop, 3 start and 4 stop of a numbered range."""
        if when is None:
            self.bad += 1
            return
        self._last = max(self._last, when)
        place = {"pid": pid, "tid": tid, "category": "ROCTX", "message": message, "start_ns": when}
        stack = self._open.setdefault((pid, tid), [])
        if kind == 0:
            self.regions.append({**place, "end_ns": when})
        elif kind == 1:
            stack.append(place)
        elif kind == 3:
            self._started.setdefault((pid, number or 0), []).append(place)
        else:
            # Older roctracers write 0 where a range starts, and its number where it stops.
            started = self._started.get((pid, number or 0)) or self._started.get((pid, 0))
            waiting = stack if kind == 2 else started
            opened = waiting.pop() if waiting else None
            if opened is None:
                self.bad += 1
            else:
                self.regions.append({**opened, "end_ns": when})

    def close_ranges(self) -> None:
        """Ranges that nothing ended end with the last mark."""
        left = [place for stack in self._open.values() for place in stack]
        started = [place for places in self._started.values() for place in places]
        for place in (*left, *started):
            self.regions.append({**place, "end_ns": max(self._last, place["start_ns"])})

    def add_dispatch(self, fields: Row) -> None:
        """A kernel by rocprof's columns or rocprofv2's fields; what else has a number, counts."""
        row: Row = {
            ours: next((_whole(fields[n]) for n in names if n in fields), None)
            for ours, names in _DISPATCH.items()
        }
        registers = [
            next((_whole(fields[n]) for n in names if n in fields), None) for names in _VGPRS
        ]
        known = [r for r in registers if r is not None]
        name = str(fields.get("KernelName") or fields.get("Kernel_Name") or "").strip('"')
        name = re.sub(r"(?: \[clone \.kd\]|\.kd)$", "", name)
        row |= {"name": name or None, "vgprs": sum(known) if known else None}
        row |= {f"{w}_{a}": 1 for w in ("work_items", "workgroup") for a in "yz"}
        self.dispatches.append(row)
        for counter, value in fields.items():
            if counter.lower() in _NO_COUNTERS or row["start_ns"] is None:
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            where = {n: row[n] for n in ("agent", "start_ns", "end_ns")}
            self.counts.append({**where, "metric": counter, "value": number})

    def finish(self) -> _rocm.Records:
        """All of it as the records that AMD's importers share."""
        counts = _rocm.make_frame(self.counts, ("agent", "start_ns", "end_ns"), "metric")
        numbers = [c["value"] for c in self.counts]
        kept = counts.with_columns(value=pl.Series(numbers, dtype=pl.Float64)).drop_nulls(
            ("start_ns", "end_ns")
        )
        return _rocm.Records(
            dispatches=_rocm.make_frame(self.dispatches, _rocm.DISPATCH, "name", "mangled_name"),
            copies=_rocm.make_frame(self.copies, _rocm.COPY, "name"),
            regions=_rocm.make_frame(self.regions, _rocm.REGION, "category", "name", "message"),
            allocations=_rocm.make_frame([], _rocm.ALLOCATION, "action", "level"),
            counts=kept.filter(kept.get_column("value").is_finite()),
            gpus={},
            threads=_rocm.make_frame([], ("pid", "tid"), "thread_name"),
        )


def _domain(call: str) -> str:
    return "HSA" if call.startswith("hsa_") else "HIP"


def _whole(text: Any) -> int | None:
    """A whole number that fits 64 bits."""
    if isinstance(text, int):
        return text if -(2**63) <= text < 2**63 else None
    plain = str(text).strip()
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 19 else None


def _read_table(text: str, records: _Records, notes: list[Quality]) -> None:
    """rocprof's results.csv: a row a kernel."""
    try:
        rows = csv.DictReader(text.replace("\0", "").splitlines())
        for row in rows:
            if None in row or None in row.values():
                records.bad += 1
            else:
                records.add_dispatch(row)
    except csv.Error as error:
        notes.append(Quality("damaged_lines", "error", f"the table is damaged: {error}"))


def _list_database(source: Source, notes: list[Quality]) -> Iterator[Row]:
    """The kernels in rocprof's results.db, which has them under the names of results.csv."""
    from sightline.importers._sqlite import SqliteFile

    again = "Record it again:  rocprofv3 --sys-trace -- PROGRAM"
    db = SqliteFile(source.plain_path(), source.given, again)
    try:
        columns: Iterable[str] = db.columns("KERN")
        yield from db.rows("KERN", list(columns)).iter_rows(named=True)
        for table, why in sorted(db.lost.items()):
            text = f"table {table} could be read in part only ({why})"
            notes.append(Quality("damaged_table", "error", text, None, again))
    finally:
        db.close()
