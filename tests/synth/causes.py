"""Why a device was idle, as the simulator knows it.

A gap ends with the start of an operation, and the simulator has noted which constraint set that
start (``DeviceOp.binding``). So the cause is read off, not inferred. The order of the questions:

1. a graph made it wait for its previous node: ``in_graph``
2. an event made it wait: ``dependency_wait``
3. its launch has no row in the recording: ``unknown``, since nobody could tell
4. its launch call began before the device ran dry: it waited for the launch to arrive
   (``launch_latency``) or for its stream to change over (``micro_gap``, below 5 us)
5. its launch call began only after the device ran dry. Then what its thread did decides:
   more than half of the gap in the data loader (``data_loading``) or in an allocation or a
   module load (``alloc_or_load``); blocked in a synchronising call when the device ran dry
   (``host_sync``); in the data loader at that moment (``data_loading``); else ``host_late``.
"""

from __future__ import annotations

from .model import (
    ALLOC,
    BOUND_BY_EVENT,
    BOUND_BY_GRAPH,
    BOUND_BY_LAUNCH,
    DATALOADER,
    SYNC,
    DeviceOp,
    HostRange,
    RankRun,
)

HOST_SYNC = "host_sync"
DATA_LOADING = "data_loading"
HOST_LATE = "host_late"
ALLOC_OR_LOAD = "alloc_or_load"
LAUNCH_LATENCY = "launch_latency"
DEPENDENCY_WAIT = "dependency_wait"
IN_GRAPH = "in_graph"
MICRO_GAP = "micro_gap"
UNKNOWN = "unknown"
CAUSES = (
    HOST_SYNC,
    DATA_LOADING,
    HOST_LATE,
    ALLOC_OR_LOAD,
    LAUNCH_LATENCY,
    DEPENDENCY_WAIT,
    IN_GRAPH,
    MICRO_GAP,
    UNKNOWN,
)

MICRO_GAP_NS = 5_000  # the usual default of trace tools


def cause_of(start_ns: int, end_ns: int, next_op: DeviceOp, rank: RankRun) -> str:
    """Return the cause of the idle gap [start_ns, end_ns) that ``next_op`` ended."""
    if next_op.binding == BOUND_BY_GRAPH:
        return IN_GRAPH
    if next_op.binding == BOUND_BY_EVENT:
        return DEPENDENCY_WAIT
    if not next_op.launch.recorded:
        return UNKNOWN
    if next_op.launch.start_ns < start_ns:
        if next_op.binding == BOUND_BY_LAUNCH:
            return LAUNCH_LATENCY
        return MICRO_GAP if end_ns - start_ns < MICRO_GAP_NS else UNKNOWN
    return _host_cause(start_ns, end_ns, next_op.launch.tid, rank)


def _host_cause(start_ns: int, end_ns: int, tid: int, rank: RankRun) -> str:
    mine = [r for r in rank.ranges if r.tid == tid and r.activity]
    loading = [r for r in mine if r.activity == DATALOADER]
    allocating = [r for r in mine if r.activity == ALLOC]
    if 2 * _inside_ns(loading, start_ns, end_ns) > end_ns - start_ns:
        return DATA_LOADING
    if 2 * _inside_ns(allocating, start_ns, end_ns) > end_ns - start_ns:
        return ALLOC_OR_LOAD
    then = {r.activity for r in mine if r.start_ns <= start_ns < r.end_ns}
    if SYNC in then:
        return HOST_SYNC
    if DATALOADER in then:
        return DATA_LOADING
    return HOST_LATE


def _inside_ns(ranges: list[HostRange], start_ns: int, end_ns: int) -> int:
    # Ranges of one activity never nest or overlap on a thread, so their parts add up.
    return sum(max(0, min(r.end_ns, end_ns) - max(r.start_ns, start_ns)) for r in ranges)
