"""rocprof's results.json: Chrome's trace events, whose arguments are what its tables hold.

Format: projects/rocprofiler/bin, tblextr.py and sqlitedb.py. An event's process is what kind it is
of; the real process, and times in ns, are arguments. What launched what is only in arrows, whose
ends are whole µs: they leave within a call, and arrive as the work begins.
"""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from sightline.formats import _rocm
from sightline.formats.amd.rocprof_legacy.spans import COPY, Part, complete, name_copies

_MARKERS, _HSA = 0, 3  # processes of the trace; 2 is HIP, 1 copies, 6 and up GPUs
_BARRIER = "<barrier packet>"  # a queue's wait: no work
_ARROW = ("id", "pid", "tid", "ts")
_PLACE = ("event_pid", "event_tid", "ts", "dur")
_WORK = (*_PLACE, "start_ns", "end_ns", "pid", "agent", "queue_id", "stream_id")
_CALL = (*_PLACE, "start_ns", "end_ns", "pid", "tid")
_ARGUMENTS = {
    "start_ns": "BeginNs", "end_ns": "EndNs", "pid": "pid", "tid": "tid", "agent": "dev-id",
    "queue_id": "queue-id", "stream_id": "stream-id",
}  # fmt: skip
Row = dict[str, Any]


def read_trace(text: str) -> tuple[pl.DataFrame, Part]:
    """The kernels with their counters, as results.csv has them, and everything else."""
    profiled: list[Row] = []
    work: list[Row] = []
    calls: list[Row] = []
    arrows: dict[str, list[Row]] = {"s": [], "t": []}
    bad = 0
    for event in _split_events(text):
        arguments = event.get("args") if event else None
        phase = event.get("ph") if event else None
        if event is None:
            bad += 1
        elif phase in ("s", "t"):
            arrows[phase].append({key: _whole(event.get(key)) for key in _ARROW})
        elif phase == "X" and isinstance(arguments, dict):
            place = {key: _whole(event.get(key.removeprefix("event_"))) for key in _PLACE}
            known = {ours: _whole(arguments.get(theirs)) for ours, theirs in _ARGUMENTS.items()}
            known["pid"] = _find_process(known["pid"], arguments, place["event_pid"])
            row = {**known, **place, "name": _text(arguments.get("Name"))}
            if "KernelName" in arguments:
                profiled.append({**place, **{k: _text(v) for k, v in arguments.items()}})
            elif "dev-id" in arguments or place["event_pid"] == 1:
                work.append(row)
            else:
                calls.append(row)
        elif phase not in ("M", None) or (phase is None and event):
            bad += 1
    _name_process(calls, work)
    kernels = pl.DataFrame(profiled, infer_schema_length=None)
    done = _rocm.make_frame(work, _WORK, "name").filter(pl.col("name").fill_null("") != _BARRIER)
    is_copy = (pl.col("event_pid") == 1) | pl.col("name").str.contains(COPY)
    # Kernels are recorded twice where counters were asked for, too: with all that is known once.
    if kernels.height:
        done = done.filter(is_copy)
    called = _rocm.make_frame(calls, _CALL, "name")
    kernels, done, called = _number_launches(
        kernels, done, called, *(_rocm.make_frame(arrows[end], _ARROW) for end in "st")
    )
    copies = name_copies(done.filter(is_copy))
    return kernels.drop(_PLACE, strict=False), Part(
        dispatches=complete(done.filter(~is_copy), _rocm.DISPATCH, "name", "mangled_name"),
        copies=complete(copies, _rocm.COPY, "name"),
        regions=_list_regions(called),
        bad=bad,
    )


def _find_process(pid: int | None, arguments: Row, event_pid: int | None) -> int | None:
    """The real process: rocprof 1 repeats the trace's number, and names that of work beside it."""
    real = _whole(arguments.get("proc-id"))
    return real if real is not None else None if pid == event_pid else pid


def _name_process(calls: list[Row], work: list[Row]) -> None:
    """Give calls without a process that of the work, where all work is of one."""
    processes = {row["pid"] for row in work}
    if len(processes) == 1:
        (only,) = processes
        for row in calls:
            row["pid"] = only if row["pid"] is None else row["pid"]


def _split_events(text: str) -> Any:
    """The events, None for each that is damaged. Each begins a line with a comma."""
    decoder = json.JSONDecoder(strict=False)
    for part in re.split(r"^,(?=\{)", text, flags=re.MULTILINE)[1:]:
        try:
            event, _ = decoder.raw_decode(part)
        except (ValueError, RecursionError):
            event = None
        yield event if isinstance(event, dict) else None


def _number_launches(
    kernels: pl.DataFrame,
    work: pl.DataFrame,
    calls: pl.DataFrame,
    leaving: pl.DataFrame,
    arriving: pl.DataFrame,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The same with `correlation_id`: each call's number, and of work that of its call.

    A kernel's is named as rocprofv2 names it. Work that begins in the same µs on the same GPU is
    told apart by its lane, where arrows say it.
    """
    calls = calls.with_columns(correlation_id=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    started = calls.drop_nulls(["event_pid", "event_tid", "ts", "dur"]).select(
        *_PLACE, "correlation_id"
    )
    left = (
        leaving.drop_nulls()
        .sort("ts")
        .join_asof(
            started.sort("ts").with_columns(called="ts"),
            on="ts",
            by_left=["pid", "tid"],
            by_right=["event_pid", "event_tid"],
            check_sortedness=False,
        )
        .filter(pl.col("ts") <= pl.col("called") + pl.col("dur"))
        .select("id", "correlation_id")
        .unique("id")
    )
    arrived = arriving.drop_nulls().join(left, on="id")

    def number(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        if frame.is_empty():
            return frame.with_columns(pl.lit(None, pl.Int64).alias(name))
        begun = frame.select("event_pid", "event_tid", "ts").with_row_index("row")
        found = (
            begun.join(arrived, left_on=["event_pid", "ts"], right_on=["pid", "ts"])
            .sort("row", pl.col("event_tid") != pl.col("tid"), "id")
            .unique("row", keep="first", maintain_order=True)
        )
        numbers = begun.join(found.select("row", "correlation_id"), on="row", how="left",
                             maintain_order="left")  # fmt: skip
        return frame.with_columns(numbers.get_column("correlation_id").alias(name))

    return number(kernels, "Correlation_ID"), number(work, "correlation_id"), calls


def _list_regions(calls: pl.DataFrame) -> pl.DataFrame:
    is_marker = pl.col("event_pid") == _MARKERS
    domain = pl.when(is_marker).then(pl.lit("ROCTX"))
    named = calls.with_columns(
        category=domain.when(pl.col("event_pid") == _HSA)
        .then(pl.lit("HSA"))
        .otherwise(pl.lit("HIP")),
        message=pl.when(is_marker).then("name"),
        correlation_id=pl.when(~is_marker).then("correlation_id"),
        # rocprof gives a mark 1 ns.
        end_ns=pl.when(is_marker & (pl.col("end_ns") == pl.col("start_ns") + 1))
        .then("start_ns")
        .otherwise("end_ns"),
    )
    return complete(named, _rocm.REGION, "category", "name", "message")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    """A whole number of at most 18 digits, from a number or its text."""
    if type(value) is int:
        return value if abs(value) < 10**18 else None
    plain = value.strip() if isinstance(value, str) else ""
    return int(plain) if re.fullmatch(r"-?[0-9]{1,18}", plain) else None
