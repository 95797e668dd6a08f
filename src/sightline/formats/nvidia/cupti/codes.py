"""Numbers that CUPTI's records use, in the model's words.

From the enumerations of cupti_activity.h (CUPTI of CUDA 12.4 to 13.5).
"""

from __future__ import annotations

import polars as pl

COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
}  # fmt: skip
_SIDES = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}
COPY_NAMES = {
    number: f"[CUDA memcpy {_SIDES[kind[0]]}-to-{_SIDES[kind[-1]]}]"
    for number, kind in COPY_KINDS.items()
}
MEMORY_KINDS = {
    1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static",
    7: "managed static",
}  # fmt: skip
LAUNCH_TYPES = {
    0: "regular", 1: "cooperative single device", 2: "cooperative multi device", 3: "command list",
}  # fmt: skip
SYNC_KINDS = {1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}
POOL_ACTIONS = {1: "created", 2: "destroyed", 3: "trimmed"}
POOL_TYPES = {1: "local", 2: "imported"}
# (CUDA) is the application's own cost, (Profiler) the recording's.
OVERHEAD_KINDS = {
    0: "Unknown",
    1: "Driver JIT compiler (CUDA)",
    1 << 16: "Buffer flush (Profiler)",
    2 << 16: "Instrumentation (Profiler)",
    3 << 16: "Resource creation/destruction (Profiler)",
    4 << 16: "Runtime module loading (CUDA)",
    5 << 16: "Lazy function loading (CUDA)",
    6 << 16: "Command buffer full (CUDA)",
    7 << 16: "Activity buffer request (Profiler)",
    8 << 16: "Unified memory tracing (Profiler)",
}
OBJECT_THREAD = 2  # CUPTI_ACTIVITY_OBJECT_THREAD
NONE_32 = 2**32 - 1  # CUPTI_SYNCHRONIZATION_INVALID_VALUE
DRIVER, RUNTIME = 1, 2  # CUpti_CallbackDomain


def decode_codes(column: str, names: dict[int, str]) -> pl.Expr:
    """The word for a number; null where there is none."""
    return pl.col(column).replace_strict(names, default=None, return_dtype=pl.String)


def keep_known(column: str, nothing: int = 0) -> pl.Expr:
    """The column, null where it holds the number that stands for nothing."""
    return pl.when(pl.col(column) != nothing).then(pl.col(column))
