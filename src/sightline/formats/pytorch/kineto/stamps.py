"""Stamps that warps took within a kernel, written as a Chrome trace by a tracer of one's own.

Many write a process for each multiprocessor and a thread for each warp, warp group or block
(open-cuprof, profilers of Hopper GEMMs): what reads as ranges of a CPU's threads, or as kernels of
as many GPUs, are sections of one kernel. Some lay the multiprocessors' clocks on one timeline,
others begin each at its own 0, and some write ns where the format has µs: what a section takes of
its warps' time is all that holds for each of them.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import StackTrie
from sightline.formats._regions import list_regions
from sightline.formats._stacks import finish_import

METRIC = "warp_time_ns"
_MULTIPROCESSOR = re.compile(r"^(?:SM|CU)[ _#]?\d+$")
# The first events of one without names of processes: what its arguments call the pid.
_HEAD_BYTES = 4_096
_ARGUMENT = re.compile(rb'"args"\s*:\s*\{[^{}]*"(?:smid|sm_id)"\s*:\s*\d')
_NOT_STAMPED = re.compile(rb'"(?:device|correlation|grid)"\s*:')
# What notes of a timeline say, which this is none of.
_OF_A_TIMELINE = {
    "ambiguous_launches", "microsecond_clock", "no_device_ops", "no_host_ops", "no_python_stacks",
    "no_steps", "one_step", "unmatched_launches", "without_device", "zero_durations",
}  # fmt: skip
_TEXT = (
    "these are timestamps from within a kernel, by multiprocessor and warp: what a section takes "
    "of its warps' time is known, what runs on GPU and CPU around it is not"
)
_REMEDY = "Record the timeline, too:  nsys profile, or sightline run"


def read_stamps(source: Source, imported: Imported, processes: dict[int, str]) -> Imported | None:
    """The sections of all warps, or None where the trace is of something else."""
    pids = imported.tables["threads"].get_column("pid")
    names = {processes.get(pid, "") for pid in pids.unique()}
    if names and all(_MULTIPROCESSOR.match(name) for name in names):
        rows, lane = _take(imported, "host_ops"), ["pid", "tid"]
    elif not names and _tells_multiprocessors(source):
        rows, lane = _take(imported, "device_ops"), ["device_id", "stream_id"]
    else:
        return None
    if rows.is_empty():
        return None
    spans = rows.select(pl.struct(lane).hash(), "start_ns", "end_ns", "name").iter_rows()
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = [
        (trie.add(path), METRIC, length, "exact") for path, length in list_regions(spans)
    ]
    kept = [note for note in imported.quality if note.kind not in _OF_A_TIMELINE]
    quality = [*kept, Quality("in_kernel", "info", _TEXT, None, _REMEDY)]
    return finish_import(source, trie, weights, quality, "Chrome trace")


def _take(imported: Imported, name: str) -> pl.DataFrame:
    table = imported.tables.get(name)
    return imported.whole[name].make() if table is None else table


def _tells_multiprocessors(source: Source) -> bool:
    """Whether the first events say which multiprocessor they are of, and no more of a kernel."""
    head = source.head()[:_HEAD_BYTES]
    return bool(_ARGUMENT.search(head)) and not _NOT_STAMPED.search(head)
