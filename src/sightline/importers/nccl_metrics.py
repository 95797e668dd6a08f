"""What NCCL and XPUTimer say of a job that is no recording: recognised, and not read.

A sum, a mean or a state has no times of single collectives, so ranks cannot be compared by it. Each
is refused in one sentence, with what to record instead.
"""

from __future__ import annotations

import re

from sightline.errors import InputError
from sightline.model.declare import Imported, Importer, ImportOptions
from sightline.model.source import Source

_RECORD = "A recording of each rank:  sightline run -- YOUR PROGRAM"
_LINES = (
    "Where the job hangs:  TORCH_FR_BUFFER_SIZE=2000  and a dump of PyTorch's flight recorder of "
    "each rank"
)
_INSPECTOR = "One line for each collective:  NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_VERBOSE=1"
# What it is known by, what it is, and what to do instead.
_KINDS = (
    (
        rb"(?m)^nccl_(?:p2p_)?(?:bus_bandwidth_gbs|exec_time_microseconds|collective_exec_time_microseconds)\{",
        "it holds metrics of NCCL's Inspector: means of thirty seconds, not single collectives",
        _INSPECTOR,
    ),
    (
        rb"(?m)^XPU_TIMER_(?:COLL|MM)_KERNEL_\w+(?:\{| )",
        "it holds XPUTimer's metrics: means and extremes by kernel, without times",
        _RECORD,
    ),
    (
        rb"Job summary\s*\n=+\s*\n\s*Nodes\s+Processes",
        "it is the status that NCCL's RAS gave of a moment: how many collectives each rank has "
        "launched, not when",
        _LINES,
    ),
    (
        rb'"type":\s?"(?:ProfilerLifecycle|ncclProfileColl(?:Api)?)"',
        "it is the output of a profiler plug-in of NCCL that writes lines of its own; NCCL's "
        "example plug-in writes a Chrome trace, and its Inspector lines that are read",
        _INSPECTOR,
    ),
)

IMPORTER = Importer(
    name="nccl_metrics",
    label="NCCL and XPUTimer metrics (not read)",
    strong=tuple(pattern for pattern, _, _ in _KINDS),
    weak=(),
    looks_like="'nccl_bus_bandwidth_gbs{', 'XPU_TIMER_COLL_KERNEL_', RAS's 'Job summary'",
    suffixes=(".prom", ".txt", ".jsonl"),
    version=1,
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Raises InputError, always: what it is, why that is not enough, and what to record."""
    head = source.head()
    why, hint = next((why, hint) for pattern, why, hint in _KINDS if re.search(pattern, head))
    raise InputError(f"cannot read {source.given}", why=why, hint=hint)
