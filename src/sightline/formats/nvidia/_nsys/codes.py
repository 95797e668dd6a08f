"""Numbers that the export uses, in the model's words, and how its global ids are taken apart.

From "SQLite Schema Reference" of the Nsight Systems documentation (2026.2) and the ENUM_ tables
that the exports carry.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.constants import find_null_columns

COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM HtoD",
    12: "UVM DtoH",
    13: "UVM DtoD",
}
MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device static",
    6: "managed static",
}
LAUNCH_TYPES = {
    1: "regular",
    2: "cooperative single device",
    3: "cooperative multi device",
}
MIGRATION_CAUSES = {
    1: "user prefetch",
    2: "page fault",
    3: "speculative prefetch",
    4: "eviction",
    5: "access counters",
}
ACCESS_TYPES = {1: "read", 2: "write", 3: "atomic", 4: "prefetch"}
SYNC_KINDS = {1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}
# CUPTI_ACTIVITY_KIND_OVERHEAD; (CUDA) is the application's own cost, (Profiler) the profiler's.
OVERHEAD_TYPES = {
    1: "Unknown",
    2: "Driver JIT compiler (CUDA)",
    3: "Buffer flush (Profiler)",
    4: "Instrumentation (Profiler)",
    5: "Resource creation/destruction (Profiler)",
    6: "Runtime module loading (CUDA)",
    7: "Lazy function loading (CUDA)",
    8: "Command buffer full (CUDA)",
}
PROFILER_OVERHEAD = "Profiler"  # PROFILER_OVERHEAD rows, whose types are not documented
# A tool older than the CUPTI that it loaded has no name for CUPTI's later kinds, and files them
# with its own. What came since is loading of modules and functions, and they lie in launches.
UNNAMED_OVERHEAD = "Unknown"
LOADING_OVERHEAD = "Runtime module loading (unnamed)"
POOL_ACTIONS = {1: "created", 2: "destroyed", 3: "trimmed"}
POOL_TYPES = {1: "local", 2: "imported"}
THREAD_STATES = {
    1: "running",
    2: "interruptible",
    3: "uninterruptible",
    4: "stopped",
    5: "terminated",
    6: "unscheduled",
    7: "waiting",
    8: "OS runtime",
    9: "initialized",
    10: "transition",
}
BLOCK_REASONS = {
    2: "sigsuspend", 3: "stopped", 4: "nanosleep", 5: "interrupt", 6: "mutex",
    7: "condition variable", 8: "semaphore", 9: "join", 10: "sigwaitinfo", 12: "send",
    13: "receive", 14: "reply", 17: "wait page", 18: "net send", 19: "net reply", 20: "free page",
    21: "page in", 22: "pool allocation", 23: "delay execution", 24: "suspended",
    25: "user request", 26: "event pair", 27: "queue",
}  # fmt: skip
FILE_ACTIONS = {1: "open", 2: "close", 3: "read", 4: "write", 6: "metadata"}

EVENT_CLASS_RUNTIME, EVENT_CLASS_DRIVER = 0, 1  # CUPTI_ACTIVITY_KIND_RUNTIME.eventClass
OSRT_CALL = 27  # OSRT_API.eventClass of a call; 31 and 32 mark when its tracing began and ended
# NVTX_EVENTS.eventType
NVTX_CATEGORY, NVTX_MARK, NVTX_THREAD_NAME, NVTX_DOMAIN = 33, 34, 39, 75
NVTX_KINDS = {34: "mark", 59: "pushpop", 60: "startend", 70: "pushpop", 71: "startend"}

NONE_32 = 2**32 - 1  # "no such stream, event, context" in unsigned 32-bit columns


def wrap_integer(value: int) -> int:
    """A whole number as SQLite holds one of 64 bits: unsigned ones wrap to signed ones."""
    return (value + 2**63) % 2**64 - 2**63


def decode_codes(column: str, names: dict[int, str]) -> pl.Expr:
    """The word for a number; null where there is none."""
    return pl.col(column).replace_strict(names, default=None, return_dtype=pl.String)


def name_process(column: str) -> pl.Expr:
    """Process id out of a global id: its bits 24 to 47."""
    return pl.col(column) // 2**24 % 2**24


def name_thread(column: str) -> pl.Expr:
    """Thread id out of a global id: its low 24 bits."""
    return pl.col(column) % 2**24


def mask_process(column: str) -> pl.Expr:
    """The global id of the process that a global thread id belongs to."""
    return pl.col(column) - pl.col(column) % 2**24


def keep_known(column: str, *nothing: int) -> pl.Expr:
    """The column, null where it holds one of the numbers that stand for nothing."""
    return pl.when(~pl.col(column).is_in(list(nothing))).then(pl.col(column)).alias(column)


def shrink_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the columns that are null throughout: joined to others, they take room."""
    return frame.drop(find_null_columns(frame))


def keep_complete(
    frame: pl.DataFrame, numbers: tuple[str, ...], texts: tuple[str, ...]
) -> pl.DataFrame:
    """The frame with these columns, null where it has none."""
    return frame.with_columns(
        *(pl.lit(None, pl.Int64).alias(c) for c in numbers if c not in frame.columns),
        *(pl.lit(None, pl.String).alias(c) for c in texts if c not in frame.columns),
    )


# How the types of an NVTX payload's fields are stored, by their numbers in nvToolsExtPayload.h
# (char to size_t); a report lists the sizes, too, and they are these.
PAYLOAD_FORMATS = {
    1: "<b", 2: "<B", 3: "<h", 4: "<H", 5: "<i", 6: "<I", 7: "<q", 8: "<Q", 9: "<q", 10: "<Q",
    11: "<b", 12: "<B", 13: "<h", 14: "<H", 15: "<i", 16: "<I", 17: "<q", 18: "<Q", 22: "<Q",
}  # fmt: skip
