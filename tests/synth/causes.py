"""Why a device was idle, as the simulator knows it.

A gap ends with the start of an operation, and the simulator has noted which constraint set that
start (``DeviceOp.binding``). So the cause is read off, not inferred. The order of the questions:

1. a graph made it wait for its previous node: ``in_graph``
2. an event made it wait: ``dependency_wait``
3. its launch has no row in the recording: ``unknown``, since nobody could tell
4. its launch call began before the device ran dry: it waited for the launch to arrive
   (``launch_latency``) or for its stream to change over (``micro_gap``, below 5 us)
5. its launch call began only after the device ran dry. Then what its thread did until the call
   decides, ns by ns: in the data loader (``data_loading``), in an allocation (``allocation``) or a
   module load (``code_loading``), in a call that had something to wait for (``host_sync``), else
   ``host_late``. A rest of up to 250 us, and the way of the launch itself, belong to the largest of
   the others if that is a wait or as long as the rest.
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
ALLOCATION = "allocation"
CODE_LOADING = "code_loading"
LAUNCH_LATENCY = "launch_latency"
DEPENDENCY_WAIT = "dependency_wait"
IN_GRAPH = "in_graph"
MICRO_GAP = "micro_gap"
UNKNOWN = "unknown"
CAUSES = (
    HOST_SYNC,
    DATA_LOADING,
    HOST_LATE,
    ALLOCATION,
    CODE_LOADING,
    LAUNCH_LATENCY,
    DEPENDENCY_WAIT,
    IN_GRAPH,
    MICRO_GAP,
    UNKNOWN,
)

MICRO_GAP_NS = 5_000  # the usual default of trace tools


CALL_NS = 40_000  # a synchronization that finds nothing to wait for takes no longer
PACE_NS = 250_000  # the longest way from one call to the next launch that is no work of its own


def parts_of(start_ns: int, end_ns: int, next_op: DeviceOp, rank: RankRun) -> dict[str, int]:
    """Return what the idle gap [start_ns, end_ns) that ``next_op`` ended went to, in ns."""
    return {k: v for k, v in _parts_of(start_ns, end_ns, next_op, rank).items() if v}


def _parts_of(start_ns: int, end_ns: int, next_op: DeviceOp, rank: RankRun) -> dict[str, int]:
    length = end_ns - start_ns
    if next_op.binding == BOUND_BY_GRAPH:
        return {IN_GRAPH: length}
    if next_op.binding == BOUND_BY_EVENT:
        return {DEPENDENCY_WAIT: length}
    if not next_op.launch.recorded:
        return {UNKNOWN: length}
    if next_op.launch.start_ns < start_ns:
        if next_op.binding == BOUND_BY_LAUNCH:
            return {LAUNCH_LATENCY: length}
        return {MICRO_GAP if length < MICRO_GAP_NS else UNKNOWN: length}
    return _host_parts(start_ns, end_ns, next_op.launch.tid, rank)


def _host_parts(start_ns: int, end_ns: int, tid: int, rank: RankRun) -> dict[str, int]:
    mine = [r for r in rank.ranges if r.tid == tid and r.activity]
    allocating = [r for r in mine if r.activity == ALLOC]
    loading = [r for r in allocating if "Module" in r.name]
    parts = {
        CODE_LOADING: _inside_ns(loading, start_ns, end_ns),
        DATA_LOADING: _inside_ns([r for r in mine if r.activity == DATALOADER], start_ns, end_ns),
        ALLOCATION: _inside_ns([r for r in allocating if r not in loading], start_ns, end_ns),
        HOST_SYNC: _inside_ns([r for r in mine if _waits(r, rank)], start_ns, end_ns),
    }
    rest = end_ns - start_ns - sum(parts.values())
    largest = max(parts, key=lambda cause: parts[cause])
    held = parts[largest] and (largest == HOST_SYNC or parts[largest] >= rest)
    takes = largest if rest <= PACE_NS and held else HOST_LATE
    parts[takes] = parts.get(takes, 0) + rest
    return parts


def _waits(r: HostRange, rank: RankRun) -> bool:
    """Whether a call waited: a device worked meanwhile, or it took longer than calls do."""
    in_work = any(op.start_ns < r.end_ns and r.start_ns < op.end_ns for op in rank.ops)
    return r.activity == SYNC and (in_work or r.end_ns - r.start_ns > CALL_NS)


def _inside_ns(ranges: list[HostRange], start_ns: int, end_ns: int) -> int:
    # Ranges of one activity never nest or overlap on a thread, so their parts add up.
    return sum(max(0, min(r.end_ns, end_ns) - max(r.start_ns, start_ns)) for r in ranges)
