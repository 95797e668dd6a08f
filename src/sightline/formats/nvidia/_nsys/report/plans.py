"""Which field of which event is which column of the export's tables.

An event is a protobuf message: a type, and one payload. The layout is not published; it was worked
out from reports beside which their exports lie (docs/formats/nsys-rep.md). Names of tables and
columns are those of the "SQLite Schema Reference" of the Nsight Systems documentation.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column: the numbers of the fields that lead to its value, in the versions that differ."""

    name: str
    paths: list[list[int]]
    kind: str = "number"  # real, text, bytes; chain: the number of the event's call chain
    missing: int | None = 0  # what an event without the field has


class Chain(NamedTuple):
    """Repeated messages of an event that are rows of another table."""

    table: str
    path: list[int]
    columns: list[Column]


class Plan(NamedTuple):
    """The events of a table. The first plan that an event meets takes it; "" leaves it out."""

    table: str
    payload: int
    when: list[int]  # a field that must be there
    values: list[int]  # and have one of these values
    columns: list[Column]
    chain: list[Chain]


def _number(name: str, *path: int) -> Column:
    return Column(name, [list(path)])


def _known(name: str, *path: int) -> Column:
    """Null where the event does not have it."""
    return Column(name, [list(path)], missing=None)


def _chain(table: str, field: int) -> Chain:
    columns = [
        _number("symbol", 1),
        _number("module", 2),
        _known("kernelMode", 4),
        _known("thumbCode", 5),
        _known("unresolved", 6),
        _known("originalIP", 8),
        _known("unwindMethod", 9),
    ]
    return Chain(table, [field], columns)


_DEVICE = [
    _number("start", 1),
    _number("end", 2),
    _number("deviceId", 4),
    _number("contextId", 5),
    _known("greenContextId", 9),
    _number("streamId", 6),
    _number("correlationId", 3),
    _number("globalPid", 8),
]
_KERNEL, _MEMCPY, _MEMSET, _SYNC, _RECORD, _GRAPH = 101, 102, 103, 105, 106, 107
_CALL = [_number("start", 1), _number("end", 2)]
_THREAD = _number("globalTid", 13)

_GPU, _HOST, _NVTX, _SCHED, _SAMPLE, _PROCESS, _MESSAGE = 107, 108, 102, 106, 104, 113, 110
_MEMORY = 123
_MODULE = 109  # mmap of a module: not exported
_CLASS = [6]  # of a host call
_RUNTIME, _DRIVER, _ANY_CUDA = 0, 1, 26
_OSRT, _OSRT_START, _OSRT_END = 27, 31, 32
_PROFILER, _CUPTI_OVERHEAD = 3, 103
# By ENUM_NSYS_EVENT_CLASS of exports: GL, GL workload; CUDA graph exec creation and graph creation;
# CUDA JIT (what is compiled, or comes from its cache, while the program runs).
_GL, _GL_WORKLOAD = 2, 5
_EXEC_CREATION, _GRAPH_CREATION, _JIT = 94, 95, 102
_TRACING = [6, 7, 8, 9, 10, 11, 45, 46]  # "tracing of NVTX began": not exported

PLANS = [
    Plan(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        _GPU,
        [_KERNEL],
        [],
        [
            *_DEVICE,
            _number("demangledName", _KERNEL, 1),
            _number("shortName", _KERNEL, 2),
            _known("mangledName", _KERNEL, 3),
            _known("launchType", _KERNEL, 24),
            _known("cacheConfig", _KERNEL, 23),
            _number("registersPerThread", _KERNEL, 21),
            *(_number(name, _KERNEL, 10 + i) for i, name in enumerate(("gridX", "gridY", "gridZ"))),
            *(
                _number(name, _KERNEL, 13 + i)
                for i, name in enumerate(("blockX", "blockY", "blockZ"))
            ),
            _number("staticSharedMemory", _KERNEL, 16),
            _number("dynamicSharedMemory", _KERNEL, 17),
            _number("localMemoryPerThread", _KERNEL, 18),
            _number("localMemoryTotal", _KERNEL, 19),
            _number("gridId", _KERNEL, 20),
            _known("sharedMemoryExecuted", _KERNEL, 22),
            _known("sharedMemoryLimitConfig", _KERNEL, 28),
            *(
                _known(name, _KERNEL, 31 + i)
                for i, name in enumerate(("clusterX", "clusterY", "clusterZ"))
            ),
            _known("clusterSchedulingPolicy", _KERNEL, 34),
            _known("maxPotentialClusterSize", _KERNEL, 35),
            _known("maxActiveClusters", _KERNEL, 36),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        _GPU,
        [_MEMCPY],
        [],
        [
            *_DEVICE,
            _number("bytes", _MEMCPY, 1),
            _number("copyKind", _MEMCPY, 2),
            _known("srcKind", _MEMCPY, 4),
            _known("dstKind", _MEMCPY, 5),
            _known("copyCount", _MEMCPY, 16),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        _GPU,
        [_MEMSET],
        [],
        [
            *_DEVICE,
            _number("value", _MEMSET, 2),
            _number("bytes", _MEMSET, 1),
            _known("memKind", _MEMSET, 4),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        _GPU,
        [_SYNC],
        [],
        [
            *_DEVICE,
            Column("syncType", [[_SYNC, 2], [_SYNC, 4]]),
            _number("eventId", _SYNC, 1),
            _known("eventSyncId", _SYNC, 3),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        _GPU,
        [_RECORD],
        [],
        [*_DEVICE[2:], _number("eventId", _RECORD, 1)],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        _GPU,
        [_GRAPH],
        [],
        [*_DEVICE, _number("graphId", _GRAPH, 1), _number("graphExecId", _GRAPH, 2)],
        [],
    ),
    Plan(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        _MEMORY,
        [],
        [],
        [
            _number("start", 1),
            _number("globalPid", 5),
            _number("deviceId", 3),
            _number("contextId", 4),
            _number("address", 6),
            _number("pc", 7),
            _number("bytes", 8),
            _number("memKind", 9),
            _number("memoryOperationType", 10),
            _number("correlationId", 12),
        ],
        [],
    ),
    Plan(
        "CUDA_GRAPH_EVENTS",
        _HOST,
        _CLASS,
        [_EXEC_CREATION, _GRAPH_CREATION],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _number("nameId", 7),
            Column("graphId", [[37, 1], [38, 1]], missing=None),
            _known("graphExecId", 37, 2),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_JIT",
        _HOST,
        _CLASS,
        [_JIT],
        # Field 40 is CUpti_ActivityJit: entry type, operation, device, and a path within a home.
        [*_CALL, _THREAD, _number("correlationId", 3), _number("nameId", 7)],
        [],
    ),
    Plan(
        "OPENGL_API",
        _HOST,
        _CLASS,
        [_GL],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _number("correlationId", 3),
            _number("nameId", 7),
            _number("returnValue", 8),
        ],
        [],
    ),
    Plan(
        "OPENGL_WORKLOAD",
        _HOST,
        _CLASS,
        [_GL_WORKLOAD],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _number("correlationId", 3),
            _number("endCorrelationId", 10),
            _number("nameId", 7),
            _number("endNameId", 12),
        ],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        _HOST,
        _CLASS,
        [_RUNTIME, _DRIVER, _ANY_CUDA],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _number("correlationId", 3),
            _number("nameId", 7),
            _number("returnValue", 8),
            Column("callchainId", [], "chain", None),
        ],
        [_chain("CUDA_CALLCHAINS", 15)],
    ),
    Plan(
        "OSRT_API",
        _HOST,
        _CLASS,
        [_OSRT, _OSRT_START, _OSRT_END],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _number("nameId", 7),
            _number("returnValue", 8),
            _known("nestingLevel", 20),
            Column("callchainId", [], "chain"),
        ],
        [_chain("OSRT_CALLCHAINS", 15)],
    ),
    Plan(
        "PROFILER_OVERHEAD",
        _HOST,
        _CLASS,
        [_PROFILER],
        [*_CALL, _THREAD, _number("nameId", 7), _number("returnValue", 8)],
        [],
    ),
    Plan(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        _HOST,
        _CLASS,
        [_CUPTI_OVERHEAD],
        [
            *_CALL,
            _number("eventClass", 6),
            _THREAD,
            _known("correlationId", 3),
            _number("nameId", 7),
            _number("overheadType", 8),
        ],
        [],
    ),
    Plan("", _HOST, _CLASS, _TRACING, [], []),
    Plan(
        "NVTX_EVENTS",
        _NVTX,
        [],
        [],
        [
            _number("start", 2),
            _known("end", 10),
            _number("eventType", 1),
            _known("rangeId", 4),
            _known("category", 5),
            _known("color", 6),
            Column("text", [[7]], "text", None),
            _number("globalTid", 9),
            _known("textId", 12),
            _known("domainId", 13),
            _known("int64Value", 8, 2),
            Column("doubleValue", [[8, 3]], "real", None),
            _known("_schemaId", 8, 9, 1),
            Column("binaryData", [[8, 9, 2]], "bytes", None),
        ],
        [],
    ),
    Plan(
        "SCHED_EVENTS",
        _SCHED,
        [],
        [],
        [
            _number("start", 1),
            _number("cpu", 3),
            _number("isSchedIn", 4),
            _number("globalTid", 6),
            _known("threadState", 5),
        ],
        [],
    ),
    Plan(
        "COMPOSITE_EVENTS",
        _SAMPLE,
        [],
        [],
        [
            Column("id", [], "chain", None),
            _number("start", 1),
            _number("cpu", 3),
            _known("threadState", 12),
            _number("globalTid", 11),
            _known("cpuCycles", 5, 2),
        ],
        [_chain("SAMPLING_CALLCHAINS", 4)],
    ),
    Plan(
        "PROCESSES",
        _PROCESS,
        [],
        [],
        [
            _known("globalPid", 2),
            Column("_executable", [[5]], "text", None),
            Column("name", [[6]], "text", None),
        ],
        [],
    ),
    Plan(
        "DIAGNOSTIC_EVENT",
        _MESSAGE,
        [],
        [],
        [
            _number("timestamp", 1, 1),
            _number("timestampType", 1, 2),
            _number("source", 2),
            _number("severity", 3),
            Column("text", [[4]], "text", None),
            _known("globalPid", 5),
        ],
        [],
    ),
    Plan("", _MODULE, [], [], [], []),
]
