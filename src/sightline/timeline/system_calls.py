"""The system call, or the call of the C library, that a thread was in at a moment."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import take_rows
from sightline.core.model.run import Run
from sightline.core.model.span import Span

# Calls that wait for another thread: Linux' futex, and the C library's calls that nsys traces.
LOCKS = (
    r"^futex(?:_wait\w*)?$|^sem_(?:timed)?wait"
    r"|^pthread_(?:mutex_(?:timed)?lock|rwlock_\w*lock|cond_\w*wait|barrier_wait)"
)

# Calls that read, write or open files, and wait for them (man 2).
FILES = (
    r"^p?(?:read|write)(?:v2?|64)?$|^pread64$|^pwrite64$|^f(?:data)?sync|^sync|^open(?:at2?)?$"
    r"|^(?:new|l|f)?stat|^f(?:open|close|read|write)$|^sendfile|^copy_file_range|^getdents"
    r"|^io_getevents|^io_uring_enter|^mmap|^msync|^fallocate|^f?truncate|^unlink|^rename|^mkdir"
)


def list_system_calls(run: Run) -> pl.DataFrame:
    """Ranges of `host_ops` in the layer `os`, without marks, in order of time. Made once."""
    return run.once(_make_system_calls)


def _make_system_calls(run: Run) -> pl.DataFrame:
    calls = run.scan("host_ops").filter(
        pl.col("layer") == "os", pl.col("range_kind").fill_null("") != "mark"
    )
    columns = ("host_op_id", "rank", "recording_id", "pid", "tid", "start_ns", "end_ns")
    frame = calls.select(
        *columns, pl.col("name").cast(pl.String), "return_value", "payload"
    ).collect()
    return frame.sort("start_ns", maintain_order=True)


def keep_ranges_of_processes(run: Run, ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges without those of a trace of the whole system: these nest with no process's own."""
    of_host = run.table("recordings").filter(pl.col("rank_source") == "host")
    if of_host.is_empty():
        return ranges
    return ranges.filter(
        ~pl.col("recording_id").is_in(of_host.get_column("recording_id").implode())
    )


def find_main_call(run: Run, rank: int, tid: int, span: Span) -> dict[str, Any] | None:
    """The call in which a thread was for most of a span: name, ns there, calls, longest (ns).

    None where no call took half of it, or none was recorded.
    """
    calls = list_system_calls(run).filter(
        pl.col("rank") == rank,
        pl.col("tid") == tid,
        pl.col("start_ns") < span[1],
        pl.col("end_ns") > span[0],
    )
    length = pl.col("end_ns").clip(upper_bound=span[1]) - pl.col("start_ns").clip(
        lower_bound=span[0]
    )
    named = (
        calls.group_by("name")
        .agg(ns=length.sum(), calls=pl.len(), longest=length.max())
        .sort("ns", "name", descending=[True, False])
    )
    if named.is_empty() or 2 * named.item(0, "ns") < span[1] - span[0]:
        return None
    return named.row(0, named=True)


def name_calls(run: Run, spans: pl.DataFrame) -> pl.DataFrame:
    """Spans of threads (rank, tid, start_ns) with `call`, and `call_id` in `host_ops`.

    It is the call that had begun last when the span began, if it had not returned.
    """
    calls = list_system_calls(run)
    found = find_latest(spans, "start_ns", calls, "start_ns", ["rank", "tid"])
    known = take_rows(calls.select("host_op_id", "name", call_end="end_ns"), found)
    is_on = (known.get_column("call_end") > spans.get_column("start_ns")).fill_null(value=False)
    return spans.hstack(
        known.select(call=pl.when(is_on).then("name"), call_id=pl.when(is_on).then("host_op_id"))
    )
