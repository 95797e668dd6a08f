#include "cupti/kinds.h"

#include <cstring>

namespace sightline::cupti {
namespace {

// offsetof of the vendor's structs, which are plain C.
#define PART(record, member, inside) \
  static_cast<uint16_t>(offsetof(record, member) + (inside)), static_cast<uint16_t>(sizeof(record::member) - (inside))
#define AT(record, member) \
  static_cast<uint16_t>(offsetof(record, member)), static_cast<uint16_t>(sizeof(record::member))

// Fields of user-defined records are numbered since CUPTI 13.3; before, there are none.
#if CUPTI_API_VERSION >= 130300
#define FIELD(name) name
#else
#define FIELD(name) -1
#endif

constexpr Type u8 = Type::u8, u16 = Type::u16, u32 = Type::u32, u64 = Type::u64, i32 = Type::i32,
               text = Type::text;

// The oldest struct of each kind that CUPTI 12.x writes: cupti_activity.h, cupti_activity_deprecated.h.
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
using PeerCopy = CUpti_ActivityMemcpyPtoP4;
using Fill = CUpti_ActivityMemset4;
using Call = CUpti_ActivityAPI;
using Sync = CUpti_ActivitySynchronization;
using Graph = CUpti_ActivityGraphTrace;
using External = CUpti_ActivityExternalCorrelation;
using Overhead = CUpti_ActivityOverhead2;
using Pool = CUpti_ActivityMemoryPool2;
using Event = CUpti_ActivityCudaEvent;
using Device = CUpti_ActivityDevice5;
using Context = CUpti_ActivityContext;

std::vector<Column> call_columns() {
  return {
      {"start", u64, AT(Call, start), FIELD(API_FIELD_START)},
      {"end", u64, AT(Call, end), FIELD(API_FIELD_END)},
      {"cbid", u32, AT(Call, cbid), FIELD(API_FIELD_CBID)},
      {"tid", u32, AT(Call, threadId), FIELD(API_FIELD_THREAD_ID)},
      {"correlation", u32, AT(Call, correlationId), FIELD(API_FIELD_CORRELATION_ID)},
      {"result", u32, AT(Call, returnValue), FIELD(API_FIELD_RETURN_VALUE)},
  };
}

std::vector<Column> kernel_columns() {
  return {
      {"start", u64, AT(Kernel, start), FIELD(KERNEL_FIELD_START)},
      {"end", u64, AT(Kernel, end), FIELD(KERNEL_FIELD_END)},
      {"correlation", u32, AT(Kernel, correlationId), FIELD(KERNEL_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Kernel, deviceId), FIELD(KERNEL_FIELD_DEVICE_ID)},
      {"context", u32, AT(Kernel, contextId), FIELD(KERNEL_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Kernel, streamId), FIELD(KERNEL_FIELD_STREAM_ID)},
      {"grid_x", i32, AT(Kernel, gridX), FIELD(KERNEL_FIELD_GRID_X)},
      {"grid_y", i32, AT(Kernel, gridY), FIELD(KERNEL_FIELD_GRID_Y)},
      {"grid_z", i32, AT(Kernel, gridZ), FIELD(KERNEL_FIELD_GRID_Z)},
      {"block_x", i32, AT(Kernel, blockX), FIELD(KERNEL_FIELD_BLOCK_X)},
      {"block_y", i32, AT(Kernel, blockY), FIELD(KERNEL_FIELD_BLOCK_Y)},
      {"block_z", i32, AT(Kernel, blockZ), FIELD(KERNEL_FIELD_BLOCK_Z)},
      {"cluster_x", u32, AT(Kernel, clusterX), FIELD(KERNEL_FIELD_CLUSTER_X)},
      {"cluster_y", u32, AT(Kernel, clusterY), FIELD(KERNEL_FIELD_CLUSTER_Y)},
      {"cluster_z", u32, AT(Kernel, clusterZ), FIELD(KERNEL_FIELD_CLUSTER_Z)},
      {"registers", u16, AT(Kernel, registersPerThread), FIELD(KERNEL_FIELD_REGISTERS_PER_THREAD)},
      {"static_shared", i32, AT(Kernel, staticSharedMemory), FIELD(KERNEL_FIELD_STATIC_SHARED_MEMORY)},
      {"dynamic_shared", i32, AT(Kernel, dynamicSharedMemory), FIELD(KERNEL_FIELD_DYNAMIC_SHARED_MEMORY)},
      {"shared_executed", u32, AT(Kernel, sharedMemoryExecuted), FIELD(KERNEL_FIELD_SHARED_MEMORY_EXECUTED)},
      {"local_per_thread", u32, AT(Kernel, localMemoryPerThread), FIELD(KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD)},
      {"local", u64, AT(Kernel, localMemoryTotal_v2), FIELD(KERNEL_FIELD_LOCAL_MEMORY_TOTAL)},
      {"max_active_clusters", u32, AT(Kernel, maxActiveClusters), FIELD(KERNEL_FIELD_MAX_ACTIVE_CLUSTERS)},
      {"launch_type", u8, AT(Kernel, launchType), FIELD(KERNEL_FIELD_LAUNCH_TYPE)},
      {"graph", u32, AT(Kernel, graphId), FIELD(KERNEL_FIELD_GRAPH_ID)},
      {"graph_node", u64, AT(Kernel, graphNodeId), FIELD(KERNEL_FIELD_GRAPH_NODE_ID)},
      {"name", text, AT(Kernel, name), FIELD(KERNEL_FIELD_NAME)},
  };
}

std::vector<Column> copy_columns() {
  return {
      {"start", u64, AT(Copy, start), FIELD(MEMCPY_FIELD_START)},
      {"end", u64, AT(Copy, end), FIELD(MEMCPY_FIELD_END)},
      {"correlation", u32, AT(Copy, correlationId), FIELD(MEMCPY_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Copy, deviceId), FIELD(MEMCPY_FIELD_DEVICE_ID)},
      {"context", u32, AT(Copy, contextId), FIELD(MEMCPY_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Copy, streamId), FIELD(MEMCPY_FIELD_STREAM_ID)},
      {"bytes", u64, AT(Copy, bytes), FIELD(MEMCPY_FIELD_BYTES)},
      {"copy_kind", u8, AT(Copy, copyKind), FIELD(MEMCPY_FIELD_COPY_KIND)},
      {"src_kind", u8, AT(Copy, srcKind), FIELD(MEMCPY_FIELD_SRC_KIND)},
      {"dst_kind", u8, AT(Copy, dstKind), FIELD(MEMCPY_FIELD_DST_KIND)},
      {"graph", u32, AT(Copy, graphId), FIELD(MEMCPY_FIELD_GRAPH_ID)},
      {"graph_node", u64, AT(Copy, graphNodeId), FIELD(MEMCPY_FIELD_GRAPH_NODE_ID)},
  };
}

std::vector<Column> peer_copy_columns() {
  return {
      {"start", u64, AT(PeerCopy, start), FIELD(MEMCPY2_FIELD_START)},
      {"end", u64, AT(PeerCopy, end), FIELD(MEMCPY2_FIELD_END)},
      {"correlation", u32, AT(PeerCopy, correlationId), FIELD(MEMCPY2_FIELD_CORRELATION_ID)},
      {"device", u32, AT(PeerCopy, deviceId), FIELD(MEMCPY2_FIELD_DEVICE_ID)},
      {"context", u32, AT(PeerCopy, contextId), FIELD(MEMCPY2_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(PeerCopy, streamId), FIELD(MEMCPY2_FIELD_STREAM_ID)},
      {"src_device", u32, AT(PeerCopy, srcDeviceId), FIELD(MEMCPY2_FIELD_SRC_DEVICE_ID)},
      {"dst_device", u32, AT(PeerCopy, dstDeviceId), FIELD(MEMCPY2_FIELD_DST_DEVICE_ID)},
      {"bytes", u64, AT(PeerCopy, bytes), FIELD(MEMCPY2_FIELD_BYTES)},
      {"copy_kind", u8, AT(PeerCopy, copyKind), FIELD(MEMCPY2_FIELD_COPY_KIND)},
      {"src_kind", u8, AT(PeerCopy, srcKind), FIELD(MEMCPY2_FIELD_SRC_KIND)},
      {"dst_kind", u8, AT(PeerCopy, dstKind), FIELD(MEMCPY2_FIELD_DST_KIND)},
      {"graph", u32, AT(PeerCopy, graphId), FIELD(MEMCPY2_FIELD_GRAPH_ID)},
      {"graph_node", u64, AT(PeerCopy, graphNodeId), FIELD(MEMCPY2_FIELD_GRAPH_NODE_ID)},
  };
}

std::vector<Column> fill_columns() {
  return {
      {"start", u64, AT(Fill, start), FIELD(MEMSET_FIELD_START)},
      {"end", u64, AT(Fill, end), FIELD(MEMSET_FIELD_END)},
      {"correlation", u32, AT(Fill, correlationId), FIELD(MEMSET_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Fill, deviceId), FIELD(MEMSET_FIELD_DEVICE_ID)},
      {"context", u32, AT(Fill, contextId), FIELD(MEMSET_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Fill, streamId), FIELD(MEMSET_FIELD_STREAM_ID)},
      {"bytes", u64, AT(Fill, bytes), FIELD(MEMSET_FIELD_BYTES)},
      {"value", u32, AT(Fill, value), FIELD(MEMSET_FIELD_VALUE)},
      {"memory_kind", u16, AT(Fill, memoryKind), FIELD(MEMSET_FIELD_MEMORY_KIND)},
      {"graph", u32, AT(Fill, graphId), FIELD(MEMSET_FIELD_GRAPH_ID)},
      {"graph_node", u64, AT(Fill, graphNodeId), FIELD(MEMSET_FIELD_GRAPH_NODE_ID)},
  };
}

std::vector<Column> sync_columns() {
  return {
      {"start", u64, AT(Sync, start), FIELD(SYNCHRONIZATION_FIELD_START)},
      {"end", u64, AT(Sync, end), FIELD(SYNCHRONIZATION_FIELD_END)},
      {"type", u32, AT(Sync, type), FIELD(SYNCHRONIZATION_FIELD_TYPE)},
      {"correlation", u32, AT(Sync, correlationId), FIELD(SYNCHRONIZATION_FIELD_CORRELATION_ID)},
      {"context", u32, AT(Sync, contextId), FIELD(SYNCHRONIZATION_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Sync, streamId), FIELD(SYNCHRONIZATION_FIELD_STREAM_ID)},
      {"event", u32, AT(Sync, cudaEventId), FIELD(SYNCHRONIZATION_FIELD_CUDA_EVENT_ID)},
  };
}

std::vector<Column> graph_columns() {
  return {
      {"start", u64, AT(Graph, start), FIELD(GRAPH_TRACE_FIELD_START)},
      {"end", u64, AT(Graph, end), FIELD(GRAPH_TRACE_FIELD_END)},
      {"correlation", u32, AT(Graph, correlationId), FIELD(GRAPH_TRACE_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Graph, deviceId), FIELD(GRAPH_TRACE_FIELD_DEVICE_ID)},
      {"context", u32, AT(Graph, contextId), FIELD(GRAPH_TRACE_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Graph, streamId), FIELD(GRAPH_TRACE_FIELD_STREAM_ID)},
      {"graph", u32, AT(Graph, graphId), FIELD(GRAPH_TRACE_FIELD_GRAPH_ID)},
  };
}

std::vector<Column> external_columns() {
  return {
      {"correlation", u32, AT(External, correlationId), FIELD(EXTERNAL_CORRELATION_FIELD_CORRELATION_ID)},
      {"external", u64, AT(External, externalId), FIELD(EXTERNAL_CORRELATION_FIELD_EXTERNAL_ID)},
      {"kind", u32, AT(External, externalKind), FIELD(EXTERNAL_CORRELATION_FIELD_EXTERNAL_KIND)},
  };
}

std::vector<Column> overhead_columns() {
  return {
      {"start", u64, AT(Overhead, start), FIELD(OVERHEAD_FIELD_START)},
      {"end", u64, AT(Overhead, end), FIELD(OVERHEAD_FIELD_END)},
      {"kind", u32, AT(Overhead, overheadKind), FIELD(OVERHEAD_FIELD_OVERHEAD_KIND)},
      // In structs, what the next column means: a thread's number where the object is a thread.
      {"object_kind", u32, AT(Overhead, objectKind), -1},
      {"tid", u32, AT(Overhead, objectId.pt.threadId), FIELD(OVERHEAD_FIELD_THREAD_ID)},
      {"correlation", u32, AT(Overhead, correlationId), FIELD(OVERHEAD_FIELD_CORRELATION_ID)},
  };
}

std::vector<Column> pool_columns() {
  return {
      {"time", u64, AT(Pool, timestamp), FIELD(MEMORY_POOL_FIELD_TIMESTAMP)},
      {"action", u32, AT(Pool, memoryPoolOperationType), FIELD(MEMORY_POOL_FIELD_OPERATION_TYPE)},
      {"type", u32, AT(Pool, memoryPoolType), FIELD(MEMORY_POOL_FIELD_POOL_TYPE)},
      {"correlation", u32, AT(Pool, correlationId), FIELD(MEMORY_POOL_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Pool, deviceId), FIELD(MEMORY_POOL_FIELD_DEVICE_ID)},
      {"min_bytes_to_keep", u64, AT(Pool, minBytesToKeep), FIELD(MEMORY_POOL_FIELD_MIN_BYTES_TO_KEEP)},
      {"address", u64, AT(Pool, address), FIELD(MEMORY_POOL_FIELD_ADDRESS)},
      {"bytes", u64, AT(Pool, size), FIELD(MEMORY_POOL_FIELD_SIZE)},
      {"release_threshold", u64, AT(Pool, releaseThreshold), FIELD(MEMORY_POOL_FIELD_RELEASE_THRESHOLD)},
      {"used", u64, AT(Pool, utilizedSize), FIELD(MEMORY_POOL_FIELD_UTILIZED_SIZE)},
  };
}

std::vector<Column> event_columns() {
  return {
      {"correlation", u32, AT(Event, correlationId), FIELD(CUDA_EVENT_FIELD_CORRELATION_ID)},
      {"context", u32, AT(Event, contextId), FIELD(CUDA_EVENT_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Event, streamId), FIELD(CUDA_EVENT_FIELD_STREAM_ID)},
      {"event", u32, AT(Event, eventId), FIELD(CUDA_EVENT_FIELD_EVENT_ID)},
  };
}

std::vector<Column> device_columns() {
  return {
      {"device", u32, AT(Device, id), FIELD(DEVICE_FIELD_ID)},
      {"name", text, AT(Device, name), FIELD(DEVICE_FIELD_NAME)},
      {"memory_bandwidth", u64, AT(Device, globalMemoryBandwidth), FIELD(DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH)},
      {"memory", u64, AT(Device, globalMemorySize), FIELD(DEVICE_FIELD_GLOBAL_MEMORY_SIZE)},
      {"l2", u32, AT(Device, l2CacheSize), FIELD(DEVICE_FIELD_L2_CACHE_SIZE)},
      {"warp", u32, AT(Device, numThreadsPerWarp), FIELD(DEVICE_FIELD_NUM_THREADS_PER_WARP)},
      {"clock_khz", u32, AT(Device, coreClockRate), FIELD(DEVICE_FIELD_CORE_CLOCK_RATE)},
      {"sms", u32, AT(Device, numMultiprocessors), FIELD(DEVICE_FIELD_NUM_MULTIPROCESSORS)},
      {"warps_per_sm", u32, AT(Device, maxWarpsPerMultiprocessor), FIELD(DEVICE_FIELD_MAX_WARPS_PER_MULTIPROCESSOR)},
      {"shared_per_sm", u32, AT(Device, maxSharedMemoryPerMultiprocessor), FIELD(DEVICE_FIELD_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)},
      {"registers_per_sm", u32, AT(Device, maxRegistersPerMultiprocessor), FIELD(DEVICE_FIELD_MAX_REGISTERS_PER_MULTIPROCESSOR)},
      {"major", u32, AT(Device, computeCapabilityMajor), FIELD(DEVICE_FIELD_COMPUTE_CAPABILITY_MAJOR)},
      {"minor", u32, AT(Device, computeCapabilityMinor), FIELD(DEVICE_FIELD_COMPUTE_CAPABILITY_MINOR)},
      {"uuid_first", u64, PART(Device, uuid, 0), FIELD(DEVICE_FIELD_UUID)},
      {"uuid_last", u64, PART(Device, uuid, 8), FIELD(DEVICE_FIELD_UUID), 8},
  };
}

std::vector<Column> context_columns() {
  return {
      {"context", u32, AT(Context, contextId), FIELD(CONTEXT_FIELD_CONTEXT_ID)},
      {"device", u32, AT(Context, deviceId), FIELD(CONTEXT_FIELD_DEVICE_ID)},
      {"null_stream", u16, AT(Context, nullStreamId), FIELD(CONTEXT_FIELD_NULL_STREAM_ID)},
  };
}

// Kinds that came later. Their structs and fields are of the version that is built with.
#if CUPTI_API_VERSION >= 130500
std::vector<Column> decompression_columns() {
  using Decompression = CUpti_ActivityMemDecompress;
  return {
      {"start", u64, AT(Decompression, start), FIELD(MEM_DECOMPRESS_FIELD_START)},
      {"end", u64, AT(Decompression, end), FIELD(MEM_DECOMPRESS_FIELD_END)},
      {"correlation", u32, AT(Decompression, correlationId), FIELD(MEM_DECOMPRESS_FIELD_CORRELATION_ID)},
      {"device", u32, AT(Decompression, deviceId), FIELD(MEM_DECOMPRESS_FIELD_DEVICE_ID)},
      {"context", u32, AT(Decompression, contextId), FIELD(MEM_DECOMPRESS_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Decompression, streamId), FIELD(MEM_DECOMPRESS_FIELD_STREAM_ID)},
      {"operations", u32, AT(Decompression, numberOfOperations), FIELD(MEM_DECOMPRESS_FIELD_NUMBER_OF_OPERATIONS)},
      {"bytes", u64, AT(Decompression, sourceBytes), FIELD(MEM_DECOMPRESS_FIELD_SOURCE_BYTES)},
  };
}

std::vector<Column> graph_host_node_columns() {
  using Node = CUpti_ActivityGraphHostNode;
  return {
      {"start", u64, AT(Node, start), FIELD(GRAPH_HOST_NODE_FIELD_START)},
      {"end", u64, AT(Node, end), FIELD(GRAPH_HOST_NODE_FIELD_END)},
      {"correlation", u32, AT(Node, correlationId), FIELD(GRAPH_HOST_NODE_FIELD_CORRELATION_ID)},
      {"context", u32, AT(Node, contextId), FIELD(GRAPH_HOST_NODE_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Node, streamId), FIELD(GRAPH_HOST_NODE_FIELD_STREAM_ID)},
      {"tid", u32, AT(Node, threadId), FIELD(GRAPH_HOST_NODE_FIELD_THREAD_ID)},
      {"graph", u32, AT(Node, graphId), FIELD(GRAPH_HOST_NODE_FIELD_GRAPH_ID)},
  };
}

std::vector<Column> host_function_columns() {
  using Launch = CUpti_ActivityHostLaunch;
  return {
      {"start", u64, AT(Launch, start), FIELD(HOST_LAUNCH_FIELD_START)},
      {"end", u64, AT(Launch, end), FIELD(HOST_LAUNCH_FIELD_END)},
      {"correlation", u32, AT(Launch, correlationId), FIELD(HOST_LAUNCH_FIELD_CORRELATION_ID)},
      {"context", u32, AT(Launch, contextId), FIELD(HOST_LAUNCH_FIELD_CONTEXT_ID)},
      {"stream", u32, AT(Launch, streamId), FIELD(HOST_LAUNCH_FIELD_STREAM_ID)},
      {"tid", u32, AT(Launch, threadId), FIELD(HOST_LAUNCH_FIELD_THREAD_ID)},
  };
}

std::vector<Column> green_context_columns() {
  using Green = CUpti_ActivityGreenContext3;
  return {
      {"context", u32, AT(Green, contextId), FIELD(GREEN_CONTEXT_FIELD_CONTEXT_ID)},
      {"parent", u32, AT(Green, parentContextId), FIELD(GREEN_CONTEXT_FIELD_PARENT_CONTEXT_ID)},
      {"device", u32, AT(Green, deviceId), FIELD(GREEN_CONTEXT_FIELD_DEVICE_ID)},
      {"sms", u16, AT(Green, numMultiprocessors), FIELD(GREEN_CONTEXT_FIELD_NUM_MULTIPROCESSORS)},
  };
}
#endif

#undef AT
#undef PART

}  // namespace

const std::vector<Kind>& list_kinds() {
  static const std::vector<Kind> kinds = {
      // A library that runs kernels one at a time writes KERNEL.
      {"kernels", {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL}, kernel_columns()},
      {"copies", {CUPTI_ACTIVITY_KIND_MEMCPY}, copy_columns()},
      {"peer_copies", {CUPTI_ACTIVITY_KIND_MEMCPY2}, peer_copy_columns()},
      {"fills", {CUPTI_ACTIVITY_KIND_MEMSET}, fill_columns()},
      {"runtime_calls", {CUPTI_ACTIVITY_KIND_RUNTIME}, call_columns(), true},
      {"driver_calls", {CUPTI_ACTIVITY_KIND_DRIVER}, call_columns(), true},
      {"syncs", {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION}, sync_columns()},
      {"graphs", {CUPTI_ACTIVITY_KIND_GRAPH_TRACE}, graph_columns()},
      {"external", {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION}, external_columns()},
      {"overhead", {CUPTI_ACTIVITY_KIND_OVERHEAD}, overhead_columns()},
      {"pools", {CUPTI_ACTIVITY_KIND_MEMORY_POOL}, pool_columns()},
      {"events", {CUPTI_ACTIVITY_KIND_CUDA_EVENT}, event_columns()},
      {"devices", {CUPTI_ACTIVITY_KIND_DEVICE}, device_columns()},
      {"contexts", {CUPTI_ACTIVITY_KIND_CONTEXT}, context_columns()},
#if CUPTI_API_VERSION >= 130500
      {"decompressions", {CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS}, decompression_columns(), false, 130500},
      {"graph_host_nodes", {CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE}, graph_host_node_columns(), false, 130500},
      {"host_functions", {CUPTI_ACTIVITY_KIND_HOST_LAUNCH}, host_function_columns(), false, 130500},
      {"green_contexts", {CUPTI_ACTIVITY_KIND_GREEN_CONTEXT}, green_context_columns(), false, 130500},
#endif
  };
  return kinds;
}

Plan plan_structs(const Kind& kind) {
  Plan plan;
  for (const Column& column : kind.columns) {
    if (kind.is_call && std::strcmp(column.name, "cbid") == 0) plan.cbid = static_cast<int>(plan.row_bytes);
    plan.steps.push_back({column.at, column.width, static_cast<uint16_t>(plan.row_bytes), column.type});
    plan.row_bytes += width_of(column.type);
  }
  return plan;
}

#if CUPTI_API_VERSION >= 130300
Plan plan_layout(const Kind& kind, const CUpti_ActivityRecordLayout& layout) {
  Plan plan;
  plan.record_bytes = static_cast<uint32_t>(layout.recordSize);
  for (const Column& column : kind.columns) {
    if (kind.is_call && std::strcmp(column.name, "cbid") == 0) plan.cbid = static_cast<int>(plan.row_bytes);
    for (size_t i = 0; i < layout.numFields; i++) {
      const CUpti_ActivityFieldLayoutEntry& entry = layout.pEntries[i];
      if (column.field < 0 || entry.fieldId != column.field || entry.size == 0) continue;
      if (column.inside >= entry.size) continue;
      size_t width = entry.size - column.inside;
      if (width > width_of(column.type) && column.type != Type::text) width = width_of(column.type);
      plan.steps.push_back({static_cast<uint16_t>(entry.offset + column.inside),
                            static_cast<uint16_t>(width), static_cast<uint16_t>(plan.row_bytes),
                            column.type});
      break;
    }
    plan.row_bytes += width_of(column.type);
  }
  return plan;
}
#endif

}  // namespace sightline::cupti
