"""Which tables and columns the schema versions have. Taken from exports of those versions."""

from __future__ import annotations

from typing import Any

START = "TARGET_INFO_SESSION_START_TIME"
META = {"old": "EXPORT_META_DATA", "new": "META_DATA_EXPORT"}


def ints(names: str) -> list[str]:
    """Integer columns; `end` is a word of SQL."""
    return [f'"{n}" INTEGER' for n in names.split()]


_KERNEL_OLD = (
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName "
    "mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ "
    "staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
    "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
_KERNEL_NEW = _KERNEL_OLD.replace("contextId", "contextId greenContextId") + (
    " qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ "
    "clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters"
)
_MEMCPY = (
    "start end deviceId contextId streamId correlationId globalPid bytes copyKind srcKind dstKind "
    "srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress"
)
_MEMSET = (
    "start end deviceId contextId streamId correlationId globalPid value bytes graphNodeId memKind"
)
_API = "start end eventClass globalTid correlationId nameId returnValue callchainId"
_NVTX = [
    *ints("start end eventType rangeId category color"),
    '"text" TEXT',
    *ints("globalTid endGlobalTid textId domainId uint64Value int64Value"),
    '"doubleValue" REAL',
    *ints("uint32Value int32Value"),
    '"floatValue" REAL',
    *ints("jsonTextId"),
    '"jsonText" TEXT',
]
_PAIRS = ['"name" TEXT', '"value" TEXT']
_CHAIN = (
    "id symbol module kernelMode thumbCode unresolved specialEntry originalIP unwindMethod "
    "stackDepth"
)
_MPI = "start end globalTid textId commHandle tag remoteRank rootRank size recvSize requestHandle"
_GPU = [
    *ints("vmId id"),
    '"name" TEXT',
    '"busLocation" TEXT',
    *ints("l2CacheSize totalMemory memoryBandwidth clockRate smCount asyncEngines"),
    '"uuid" TEXT',
    *ints("maxShmemPerSm maxRegistersPerSm threadsPerWarp maxWarpsPerSm computeMajor computeMinor"),
]

_BASE: dict[str, list[str]] = {
    START: [*ints("utcEpochNs"), '"utcTime" TEXT', '"localTime" TEXT'],
    "StringIds": ['"id" INTEGER PRIMARY KEY', '"value" TEXT'],
    "CUPTI_ACTIVITY_KIND_KERNEL": ints(_KERNEL_OLD),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ints(_MEMCPY),
    "CUPTI_ACTIVITY_KIND_MEMSET": ints(_MEMSET),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ints(_API),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ints(
        "start end deviceId contextId streamId correlationId globalPid syncType eventId"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ints(
        "deviceId contextId streamId correlationId globalPid eventId"
    ),
    "NVTX_EVENTS": _NVTX,
    "OSRT_API": ints("start end eventClass globalTid nameId returnValue nestingLevel callchainId"),
    "OSRT_CALLCHAINS": ints(_CHAIN),
    "SAMPLING_CALLCHAINS": ints(_CHAIN),
    "CUDA_CALLCHAINS": ints("id symbol module unresolved originalIP stackDepth"),
    "COMPOSITE_EVENTS": ints("id start cpu threadState globalTid cpuCycles"),
    "SCHED_EVENTS": ints("start cpu isSchedIn globalTid"),
    "PROFILER_OVERHEAD": ints("start end globalTid nameId returnValue"),
    "PROCESSES": [*ints("globalPid pid"), '"name" TEXT'],
    "ProcessStreams": ints("globalPid filenameId contentId"),
    "ThreadNames": ints("nameId priority globalTid"),
    "ANALYSIS_DETAILS": ints("globalVid duration startTime stopTime"),
    "TARGET_INFO_GPU": _GPU,
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": ints(
        "start globalPid address originalFaultPc CpuInstruction module unresolvedFaultPc"
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": ints(
        "start end globalPid deviceId address numberOfPageFaults faultAccessType"
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": [
        *ints("start globalPid deviceId contextId address pc bytes memKind memoryOperationType"),
        '"name" TEXT',
        *ints("correlationId"),
    ],
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": ints("start end nameId globalTid eventKind"),
    "OPENMP_EVENT_KIND_PARALLEL": ints("start end eventClass globalTid nameId eventKind"),
}
_NEW: dict[str, list[str]] = {
    **_BASE,
    "META_DATA_EXPORT": _PAIRS,
    "META_DATA_CAPTURE": _PAIRS,
    "CUPTI_ACTIVITY_KIND_KERNEL": ints(_KERNEL_NEW),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ints(_MEMCPY.replace("contextId", "contextId greenContextId", 1)),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ints(
        "start end deviceId contextId greenContextId streamId correlationId globalPid "
        "deprecatedSyncType syncType eventId eventSyncId"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ints(
        "timestamp deviceId contextId greenContextId streamId correlationId globalPid eventId "
        "eventSyncId"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ints(
        "start end deviceId contextId greenContextId streamId correlationId globalPid graphId "
        "graphExecId"
    ),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": ints(
        "start end eventClass globalTid correlationId nameId overheadType"
    ),
    "CUDA_GRAPH_EVENTS": ints(
        "start end eventClass globalTid nameId graphId originalGraphId graphExecId"
    ),
    "CUDA_GRAPH_NODE_EVENTS": ints(
        "start end eventClass globalTid nameId graphId graphNodeId originalGraphNodeId"
    ),
    "PROFILER_OVERHEAD": ints("start end globalTid nameId overheadType"),
    "NVTX_EVENTS": [*_NVTX, '"binaryData" TEXT'],
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
        *ints("domainId schemaId idx flags type"),
        '"name" TEXT',
        *ints("offset"),
    ],
    "SCHED_EVENTS": ints("start cpu isSchedIn globalTid threadState threadBlock"),
    "DIAGNOSTIC_EVENT": [
        *ints("timestamp timestampType source severity"),
        '"text" TEXT',
        *ints("globalPid"),
    ],
    "TARGET_INFO_SYSTEM_ENV": ['"name" TEXT', '"value" TEXT'],
    "TARGET_INFO_CUDA_DEVICE": ints("gpuId cudaId pid"),
    "MPI_RANKS": ints("globalTid rank"),
    "MPI_P2P_EVENTS": ints(_MPI),
    "MPI_COLLECTIVES_EVENTS": ints(_MPI),
    "MPI_START_WAIT_EVENTS": ints("start end globalTid textId requestHandle"),
    "MPI_COMMUNICATORS": ints(
        "rank timestamp commHandle parentHandle localRank size groupRoot groupRootUid"
    ),
    "GPU_METRICS": ints("timestamp typeId metricId value"),
    "TARGET_INFO_GPU_METRICS": [
        *ints("typeId sourceId"),
        '"typeName" TEXT',
        *ints("metricId"),
        '"metricName" TEXT',
    ],
    "NET_NIC_METRIC": ints("start end globalId portId metricsListId metricsIdx value"),
    "TARGET_INFO_NETWORK_METRICS": [
        *ints("metricsListId metricsIdx"),
        '"name" TEXT',
        '"description" TEXT',
        '"unit" TEXT',
    ],
    "NIC_ID_MAP": ints("nicId globalId"),
    "TARGET_INFO_NIC_INFO": [*ints("GUID"), '"stateName" TEXT', *ints("nicId"), '"name" TEXT'],
    "CUDA_GPU_MEMORY_POOL_EVENTS": ints(
        "start globalPid deviceId address operationType poolType correlationId minBytesToKeep "
        "localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize"
    ),
    "OSRT_FILE_ACCESS_DESCRIPTORS": [
        *ints("fileAccessId processId openedAt closedAt"),
        '"filePath" TEXT',
    ],
    "OSRT_FILE_ACCESS_EVENTS": ints(
        "fileAccessId threadId startedAt endedAt eventType apiCallId bytesProcessed"
    ),
}
# The export of 2022 wrote every table, with or without rows; newer ones only those with rows.
_OLD_ALWAYS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "OSRT_API",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "NVTX_EVENTS",
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "2.9": {
        "meta": "old", "tables": {**_BASE, "EXPORT_META_DATA": _PAIRS}, "suffix": {},
        "always": _OLD_ALWAYS,
    },
    "3.1": {"meta": "old", "tables": {**_NEW, "EXPORT_META_DATA": _PAIRS,
            "CUPTI_ACTIVITY_KIND_KERNEL": ints(_KERNEL_OLD)}, "suffix": {}, "always": ()},
    "3.24": {
        "meta": "new", "tables": _NEW, "always": (),
        "suffix": {"CUPTI_ACTIVITY_KIND_KERNEL": "_V3", "CUPTI_ACTIVITY_KIND_RUNTIME": "_V2"},
    },
    "3.25": {"meta": "new", "tables": _NEW, "suffix": {}, "always": ()},
    # A version that nobody knows yet: a column is gone, another is new.
    "3.99": {
        "meta": "new", "suffix": {}, "always": (),
        "tables": {**_NEW, "CUPTI_ACTIVITY_KIND_KERNEL": ints(
            _KERNEL_NEW.replace("registersPerThread ", "") + " brandNewColumn")},
    },
}  # fmt: skip
