// A libcupti for tests, made of NVIDIA's headers: records that a program of ours asks for go through
// the real buffer protocol. Test only; never installed. Values are formulas of a running number,
// which tests/support/cupti_mock.py has as well.
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define OK return CUPTI_SUCCESS
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const char* text_of(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}
long number_of(const char* name, long otherwise) { return text_of(name) ? std::atol(text_of(name)) : otherwise; }

struct Subscriber {
  CUpti_CallbackFunc callback = nullptr;
  void* data = nullptr;
  std::set<int> enabled;
  std::set<std::pair<int, uint32_t>> left_out;  // kinds and calls that are not recorded
  std::set<std::pair<int, uint32_t>> callbacks;
  std::mutex lock;
  uint8_t* buffer = nullptr;
  size_t size = 0, used = 0, most = 0, count = 0;
  bool incomplete = false;  // the buffer holds a record that is not finished
  size_t dropped = 0;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
#if CUPTI_API_VERSION >= 130300
  CUpti_BuffersCallbackRequestFunc_v2 request_v2 = nullptr;
  CUpti_BuffersCallbackCompleteFunc_v2 complete_v2 = nullptr;
  bool has_layouts = false;
  struct Layout {
    std::vector<CUpti_ActivityFieldLayoutEntry> entries;
    CUpti_ActivityRecordLayout record{};
  };
  std::map<int, Layout> layouts;
#endif
};

std::vector<Subscriber*> subscribers;

bool has_callback(Subscriber& s, int domain, uint32_t id) {
  std::lock_guard<std::mutex> guard(s.lock);
  return s.callbacks.count({domain, id}) > 0;
}
bool has_foreign = false;
std::map<CUcontext, uint32_t> contexts;

struct Value {
  int field;
  uint64_t number;
  uint8_t bytes;
};

// A record as CUPTI has it: a struct for the v1 interface, fields by number for user-defined ones.
struct Record {
  int kind;
  const void* data;
  size_t size;
  std::vector<Value> values;
  bool is_complete = true;
};

void deliver(Subscriber& s) {
  if (!s.buffer) return;
  uint8_t* buffer = s.buffer;
  const size_t used = s.used, size = s.size;
  s.buffer = nullptr;
  s.used = s.count = 0;
  s.incomplete = false;
#if CUPTI_API_VERSION >= 130300
  if (s.complete_v2) {
    std::vector<CUpti_ActivityRecordLayout*> table(64, nullptr);
    for (auto& [kind, layout] : s.layouts) table[static_cast<size_t>(kind)] = &layout.record;
    CUpti_BufferCallbackCompleteInfo info{sizeof info, 0, table.data(), table.size()};
    s.complete_v2(buffer, size, used, &info);
    return;
  }
#endif
  s.complete(nullptr, 0, buffer, size, used);
}

bool make_room(Subscriber& s, size_t bytes) {
  if (s.buffer && (s.used + bytes > s.size || (s.most && s.count >= s.most))) deliver(s);
  if (!s.buffer) {
    s.used = s.count = s.most = s.size = 0;
#if CUPTI_API_VERSION >= 130300
    CUpti_BufferCallbackRequestInfo info{sizeof info};
    if (s.request_v2) s.request_v2(&s.buffer, &s.size, &s.most, &info);
    else
#endif
        if (s.request) s.request(&s.buffer, &s.size, &s.most);
    if (s.buffer && s.size < bytes) std::abort();
    // Before CUDA 12.9 one could not do without.
    static const bool must_have = number_of("MOCK_VERSION", CUPTI_API_VERSION) < 27;
    if (!s.buffer && must_have) std::abort();
  }
  return s.buffer != nullptr;
}

void put(const Record& record) {
  for (Subscriber* one : subscribers) {
    Subscriber& s = *one;
    std::lock_guard<std::mutex> guard(s.lock);
    if (!s.enabled.count(record.kind)) continue;
    if ((record.kind == CUPTI_ACTIVITY_KIND_DRIVER || record.kind == CUPTI_ACTIVITY_KIND_RUNTIME) &&
        s.left_out.count({record.kind, static_cast<const CUpti_ActivityAPI*>(record.data)->cbid}))
      continue;
    size_t bytes = record.size;
#if CUPTI_API_VERSION >= 130300
    if (s.has_layouts) bytes = s.layouts[record.kind].record.recordSize;
#endif
    if (!make_room(s, bytes)) {
      s.dropped++;
      continue;
    }
#if CUPTI_API_VERSION >= 130300
    if (s.has_layouts) {
      std::memset(s.buffer + s.used, 0xEE, bytes);  // padding is whatever was there
      for (const CUpti_ActivityFieldLayoutEntry& entry : s.layouts[record.kind].entries) {
        uint64_t value = entry.fieldId == 0 ? static_cast<uint64_t>(record.kind) : 0;
        for (const Value& v : record.values)
          if (v.field == entry.fieldId) value = v.number;
        if (entry.size == sizeof(CUuuid))  // the only field that is no number
          std::memcpy(s.buffer + s.used + entry.offset, static_cast<const uint8_t*>(record.data) + offsetof(CUpti_ActivityDevice5, uuid), entry.size);
        else
          std::memcpy(s.buffer + s.used + entry.offset, &value, entry.size);
      }
    } else
#endif
      std::memcpy(s.buffer + s.used, record.data, record.size);
    s.used += bytes;
    s.count++;
    if (!record.is_complete) s.incomplete = true;
  }
}

size_t size_of(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return sizeof(CUpti_ActivityGraphTrace);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead2);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL: return sizeof(CUpti_ActivityMemoryPool2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return sizeof(CUpti_ActivityCudaEvent);
    case CUPTI_ACTIVITY_KIND_DEVICE: return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT: return sizeof(CUpti_ActivityContext);
#if CUPTI_API_VERSION >= 130500
    case CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS: return sizeof(CUpti_ActivityMemDecompress);
    case CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE: return sizeof(CUpti_ActivityGraphHostNode);
    case CUPTI_ACTIVITY_KIND_HOST_LAUNCH: return sizeof(CUpti_ActivityHostLaunch);
    case CUPTI_ACTIVITY_KIND_GREEN_CONTEXT: return sizeof(CUpti_ActivityGreenContext3);
#endif
    case CUPTI_ACTIVITY_KIND_JIT: return 32;  // a kind that the recording does not keep
    default: return 0;
  }
}

template <typename T>
Record make(int kind, T& record, std::vector<Value> values, bool is_complete = true) {
  record.kind = static_cast<CUpti_ActivityKind>(kind);
  return {kind, &record, sizeof record, std::move(values), is_complete};
}

#if CUPTI_API_VERSION >= 130300
#define F(field, value) Value{field, static_cast<uint64_t>(value), sizeof(value)}
#else
#define F(field, value) Value{-1, static_cast<uint64_t>(value), sizeof(value)}
#define KERNEL_FIELD_START 0
#endif

constexpr uint64_t kFirst = 1700000000000000000ull;
const char* kernel_names[] = {"_Z5saxpyifPKfPf", "_ZN2at6native18elementwise_kernelEi", "gemm_kernel", "reduce"};

void call(int kind, uint32_t cbid, uint64_t start, uint64_t end, uint32_t tid, uint32_t correlation, uint32_t result) {
  CUpti_ActivityAPI a{};
  a.cbid = cbid;
  a.start = start;
  a.end = end;
  a.processId = 4711;
  a.threadId = tid;
  a.correlationId = correlation;
  a.returnValue = result;
  std::vector<Value> values;
#if CUPTI_API_VERSION >= 130300
  values = {F(API_FIELD_CBID, a.cbid), F(API_FIELD_START, a.start), F(API_FIELD_END, a.end),
            F(API_FIELD_THREAD_ID, a.threadId), F(API_FIELD_CORRELATION_ID, a.correlationId),
            F(API_FIELD_RETURN_VALUE, a.returnValue)};
#endif
  put(make(kind, a, values));
}

void kernel(uint64_t n, uint64_t start, uint64_t end, uint32_t correlation, uint32_t graph = 0) {
  CUpti_ActivityKernel9 k{};
  k.start = start;
  k.end = end;
  k.deviceId = static_cast<uint32_t>(n % 2);
  k.contextId = 1 + k.deviceId;
  k.streamId = 7 + static_cast<uint32_t>(n % 3);
  k.gridX = static_cast<int32_t>(1 + n % 1000);
  k.gridY = 2;
  k.gridZ = 3;
  k.blockX = 256;
  k.blockY = k.blockZ = 1;
  k.registersPerThread = static_cast<uint16_t>(32 + n % 200);
  k.staticSharedMemory = 1024;
  k.dynamicSharedMemory = static_cast<int32_t>(n % 4096);
  k.sharedMemoryExecuted = 65536;
  k.localMemoryPerThread = 8;
  k.localMemoryTotal_v2 = 5000000000ull;
  k.clusterX = static_cast<uint32_t>(n % 2 ? 2 : 0);
  k.clusterY = k.clusterZ = k.clusterX ? 1 : 0;
  k.correlationId = correlation;
  k.graphId = graph;
  k.graphNodeId = graph ? n : 0;
  k.launchType = 0;
  k.name = kernel_names[n % 4];
  std::vector<Value> values;
#if CUPTI_API_VERSION >= 130300
  values = {F(KERNEL_FIELD_START, k.start), F(KERNEL_FIELD_END, k.end), F(KERNEL_FIELD_DEVICE_ID, k.deviceId),
            F(KERNEL_FIELD_CONTEXT_ID, k.contextId), F(KERNEL_FIELD_STREAM_ID, k.streamId),
            F(KERNEL_FIELD_GRID_X, k.gridX), F(KERNEL_FIELD_GRID_Y, k.gridY), F(KERNEL_FIELD_GRID_Z, k.gridZ),
            F(KERNEL_FIELD_BLOCK_X, k.blockX), F(KERNEL_FIELD_BLOCK_Y, k.blockY), F(KERNEL_FIELD_BLOCK_Z, k.blockZ),
            F(KERNEL_FIELD_REGISTERS_PER_THREAD, k.registersPerThread),
            F(KERNEL_FIELD_STATIC_SHARED_MEMORY, k.staticSharedMemory),
            F(KERNEL_FIELD_DYNAMIC_SHARED_MEMORY, k.dynamicSharedMemory),
            F(KERNEL_FIELD_SHARED_MEMORY_EXECUTED, k.sharedMemoryExecuted),
            F(KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD, k.localMemoryPerThread),
            F(KERNEL_FIELD_LOCAL_MEMORY_TOTAL, k.localMemoryTotal_v2), F(KERNEL_FIELD_CLUSTER_X, k.clusterX),
            F(KERNEL_FIELD_CLUSTER_Y, k.clusterY), F(KERNEL_FIELD_CLUSTER_Z, k.clusterZ),
            F(KERNEL_FIELD_CORRELATION_ID, k.correlationId), F(KERNEL_FIELD_GRAPH_ID, k.graphId),
            F(KERNEL_FIELD_GRAPH_NODE_ID, k.graphNodeId), F(KERNEL_FIELD_LAUNCH_TYPE, k.launchType),
            Value{KERNEL_FIELD_NAME, reinterpret_cast<uint64_t>(k.name), 8}};
#endif
  put(make(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, k, values, end != 0));
}

}  // namespace

// ---- what the test program calls -----------------------------------------------------------------

namespace {
void burn(long ns) {
  if (ns <= 0) return;
  timespec start{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec - start.tv_nsec < ns);
}
}  // namespace

// A launch takes the program some time, and more where it is recorded.
EXPORT void mock_work(uint64_t) {
  static const long work = number_of("MOCK_WORK_NS", 0), cost = number_of("MOCK_COST_NS", 0);
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  bool is_recorded = false;
  for (Subscriber* s : subscribers) {
    if (has_callback(*s, CUPTI_CB_DOMAIN_DRIVER_API, 307)) s->callback(s->data, CUPTI_CB_DOMAIN_DRIVER_API, 307, &data);
    std::lock_guard<std::mutex> guard(s->lock);
    is_recorded |= s->enabled.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) > 0;
  }
  burn(work + (is_recorded ? cost : 0));
}
// One launch: an external id, the runtime's call with the driver's inside, the kernel.
EXPORT void mock_launch(uint64_t n, uint32_t tid) {
  const auto correlation = static_cast<uint32_t>(n + 1);
  const uint64_t start = kFirst + n * 10000;
  CUpti_ActivityExternalCorrelation x{};
  x.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  x.externalId = 1000 + n;
  x.correlationId = correlation;
  std::vector<Value> values;
#if CUPTI_API_VERSION >= 130300
  values = {F(EXTERNAL_CORRELATION_FIELD_EXTERNAL_KIND, static_cast<uint32_t>(x.externalKind)),
            F(EXTERNAL_CORRELATION_FIELD_EXTERNAL_ID, x.externalId),
            F(EXTERNAL_CORRELATION_FIELD_CORRELATION_ID, x.correlationId)};
#endif
  put(make(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, x, values));
  call(CUPTI_ACTIVITY_KIND_RUNTIME, 211, start, start + 4000, tid, correlation, 0);
  kernel(n, start + 5000, start + 8000, correlation);
}
EXPORT void mock_driver_call(uint64_t n, uint32_t tid) {
  call(CUPTI_ACTIVITY_KIND_DRIVER, 307, kFirst + n * 10000 + 500, kFirst + n * 10000 + 3500, tid, static_cast<uint32_t>(n + 1), 0);
}
// What the CUDA runtime asks before a launch that a tool is told of, and the program behind it.
EXPORT void mock_lookup(uint64_t n, uint32_t tid) {
  const uint64_t start = kFirst + n * 10000 - 200;
  call(CUPTI_ACTIVITY_KIND_DRIVER, 719, start, start + 100, tid, static_cast<uint32_t>(90001 + n), 0);
  call(CUPTI_ACTIVITY_KIND_RUNTIME, 10, start + 4500, start + 4600, tid, static_cast<uint32_t>(80001 + n), 0);
}
EXPORT void mock_kernel(uint64_t n, uint64_t start, uint64_t end, uint32_t correlation, uint32_t graph) {
  kernel(n, start ? kFirst + start : 0, end ? kFirst + end : 0, correlation, graph);
}
EXPORT void mock_copy(uint64_t n, int copy_kind) {
  CUpti_ActivityMemcpy5 m{};
  m.start = kFirst + n * 10000 + 8000;
  m.end = m.start + 1000;
  m.bytes = 4096 + n;
  m.copyKind = static_cast<uint8_t>(copy_kind);
  m.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  m.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.streamId = 7;
  m.contextId = 1;
  m.correlationId = static_cast<uint32_t>(n + 1);
  std::vector<Value> values;
#if CUPTI_API_VERSION >= 130300
  values = {F(MEMCPY_FIELD_START, m.start), F(MEMCPY_FIELD_END, m.end), F(MEMCPY_FIELD_BYTES, m.bytes),
            F(MEMCPY_FIELD_COPY_KIND, m.copyKind), F(MEMCPY_FIELD_SRC_KIND, m.srcKind),
            F(MEMCPY_FIELD_DST_KIND, m.dstKind), F(MEMCPY_FIELD_STREAM_ID, m.streamId),
            F(MEMCPY_FIELD_CONTEXT_ID, m.contextId), F(MEMCPY_FIELD_CORRELATION_ID, m.correlationId)};
#endif
  put(make(CUPTI_ACTIVITY_KIND_MEMCPY, m, values));
}
EXPORT void mock_peer_copy(uint64_t n) {
  CUpti_ActivityMemcpyPtoP4 m{};
  m.start = kFirst + n * 10000 + 8000;
  m.end = m.start + 1500;
  m.bytes = 8192;
  m.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  m.srcKind = m.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.streamId = 9;
  m.contextId = 1;
  m.dstDeviceId = 1;
  m.correlationId = static_cast<uint32_t>(n + 1);
  put(make(CUPTI_ACTIVITY_KIND_MEMCPY2, m, {}));
}
EXPORT void mock_fill(uint64_t n) {
  CUpti_ActivityMemset4 m{};
  m.start = kFirst + n * 10000 + 9000;
  m.end = m.start + 500;
  m.bytes = 512;
  m.value = 0xAB;
  m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.streamId = 7;
  m.contextId = 1;
  m.correlationId = static_cast<uint32_t>(n + 1);
  put(make(CUPTI_ACTIVITY_KIND_MEMSET, m, {}));
}
EXPORT void mock_sync(uint64_t n, int type) {
  CUpti_ActivitySynchronization s{};
  s.type = static_cast<CUpti_ActivitySynchronizationType>(type);
  s.start = kFirst + n * 10000 + 4500;
  s.end = s.start + 4000;
  s.correlationId = static_cast<uint32_t>(n + 1);
  s.contextId = 1;
  s.streamId = type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE ? 0xFFFFFFFFu : 7;
  s.cudaEventId = type <= 2 ? 3 : 0xFFFFFFFFu;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, 165, s.start - 100, s.end + 100, 100, s.correlationId, 0);
  put(make(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, s, {}));
}
EXPORT void mock_graph(uint64_t n) {
  CUpti_ActivityGraphTrace g{};
  g.start = kFirst + n * 10000 + 5000;
  g.end = g.start + 4000;
  g.correlationId = static_cast<uint32_t>(n + 1);
  g.graphId = 5;
  g.streamId = 7;
  g.contextId = 1;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, 311, g.start - 4000, g.start - 1000, 100, g.correlationId, 0);
  put(make(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, g, {}));
}
EXPORT void mock_overhead(uint64_t n) {
  CUpti_ActivityOverhead2 o{};
  o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  o.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  o.objectId.pt.processId = 4711;
  o.objectId.pt.threadId = 101;
  o.start = kFirst + n * 10000;
  o.end = o.start + 2500;
  put(make(CUPTI_ACTIVITY_KIND_OVERHEAD, o, {}));
}
EXPORT void mock_pool(uint64_t n) {
  CUpti_ActivityMemoryPool2 p{};
  p.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;
  p.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  p.timestamp = kFirst + n * 10000;
  p.address = 0x7f0000000000ull;
  p.size = 1 << 25;
  p.utilizedSize = 1 << 20;
  p.releaseThreshold = 77;
  p.minBytesToKeep = 11;
  p.correlationId = static_cast<uint32_t>(n + 1);
  put(make(CUPTI_ACTIVITY_KIND_MEMORY_POOL, p, {}));
}
EXPORT void mock_event(uint64_t n) {
  CUpti_ActivityCudaEvent e{};
  e.correlationId = static_cast<uint32_t>(n + 1);
  e.contextId = 1;
  e.streamId = 7;
  e.eventId = 3;
  call(CUPTI_ACTIVITY_KIND_RUNTIME, 135, kFirst + n * 10000, kFirst + n * 10000 + 700, 100, e.correlationId, 0);
  put(make(CUPTI_ACTIVITY_KIND_CUDA_EVENT, e, {}));
}
EXPORT void mock_device(uint32_t id) {
  CUpti_ActivityDevice5 d{};
  d.id = id;
  d.name = "NVIDIA H200";
  d.globalMemoryBandwidth = 4800000000;  // kB/s
  d.globalMemorySize = 150754820096;
  d.l2CacheSize = 62914560;
  d.numThreadsPerWarp = 32;
  d.coreClockRate = 1980000;  // kHz
  d.numMultiprocessors = 132;
  d.maxWarpsPerMultiprocessor = 64;
  d.maxSharedMemoryPerMultiprocessor = 233472;
  d.maxRegistersPerMultiprocessor = 65536;
  d.computeCapabilityMajor = 9;
  for (size_t i = 0; i < sizeof d.uuid.bytes; i++) d.uuid.bytes[i] = static_cast<char>(0xF0 + i * 3 + id);
  std::vector<Value> values;
#if CUPTI_API_VERSION >= 130300
  values = {F(DEVICE_FIELD_ID, d.id)};
#endif
  put(make(CUPTI_ACTIVITY_KIND_DEVICE, d, values));
  CUpti_ActivityContext c{};
  c.contextId = id + 1;
  c.deviceId = id;
  put(make(CUPTI_ACTIVITY_KIND_CONTEXT, c, {}));
}
#if CUPTI_API_VERSION >= 130500
// Kinds of CUPTI 13.5: a batch that was decompressed, a host node of a graph, a host function, a green
// context. Values count up, so that none is taken for another.
EXPORT void mock_late_kinds() {
  CUpti_ActivityMemDecompress m{};
  m.start = kFirst + 1000, m.end = kFirst + 1900, m.correlationId = 71, m.deviceId = 1, m.contextId = 2;
  m.streamId = 13, m.numberOfOperations = 3, m.sourceBytes = 4096;
  put(make(CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS, m,
           {F(MEM_DECOMPRESS_FIELD_START, m.start), F(MEM_DECOMPRESS_FIELD_END, m.end),
            F(MEM_DECOMPRESS_FIELD_CORRELATION_ID, m.correlationId), F(MEM_DECOMPRESS_FIELD_DEVICE_ID, m.deviceId),
            F(MEM_DECOMPRESS_FIELD_CONTEXT_ID, m.contextId), F(MEM_DECOMPRESS_FIELD_STREAM_ID, m.streamId),
            F(MEM_DECOMPRESS_FIELD_NUMBER_OF_OPERATIONS, m.numberOfOperations),
            F(MEM_DECOMPRESS_FIELD_SOURCE_BYTES, m.sourceBytes)}));
  CUpti_ActivityGraphHostNode g{};
  g.start = kFirst + 2000, g.end = kFirst + 2500, g.correlationId = 72, g.contextId = 2, g.streamId = 14;
  g.threadId = 900, g.graphId = 6;
  put(make(CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE, g,
           {F(GRAPH_HOST_NODE_FIELD_START, g.start), F(GRAPH_HOST_NODE_FIELD_END, g.end),
            F(GRAPH_HOST_NODE_FIELD_CORRELATION_ID, g.correlationId), F(GRAPH_HOST_NODE_FIELD_CONTEXT_ID, g.contextId),
            F(GRAPH_HOST_NODE_FIELD_STREAM_ID, g.streamId), F(GRAPH_HOST_NODE_FIELD_THREAD_ID, g.threadId),
            F(GRAPH_HOST_NODE_FIELD_GRAPH_ID, g.graphId)}));
  CUpti_ActivityHostLaunch h{};
  h.start = kFirst + 3000, h.end = kFirst + 3700, h.correlationId = 73, h.contextId = 2, h.streamId = 15, h.threadId = 901;
  put(make(CUPTI_ACTIVITY_KIND_HOST_LAUNCH, h,
           {F(HOST_LAUNCH_FIELD_START, h.start), F(HOST_LAUNCH_FIELD_END, h.end),
            F(HOST_LAUNCH_FIELD_CORRELATION_ID, h.correlationId), F(HOST_LAUNCH_FIELD_CONTEXT_ID, h.contextId),
            F(HOST_LAUNCH_FIELD_STREAM_ID, h.streamId), F(HOST_LAUNCH_FIELD_THREAD_ID, h.threadId)}));
  CUpti_ActivityGreenContext3 c{};
  c.contextId = 9, c.parentContextId = 2, c.deviceId = 1, c.numMultiprocessors = 16;
  put(make(CUPTI_ACTIVITY_KIND_GREEN_CONTEXT, c,
           {F(GREEN_CONTEXT_FIELD_CONTEXT_ID, c.contextId), F(GREEN_CONTEXT_FIELD_PARENT_CONTEXT_ID, c.parentContextId),
            F(GREEN_CONTEXT_FIELD_DEVICE_ID, c.deviceId),
            F(GREEN_CONTEXT_FIELD_NUM_MULTIPROCESSORS, c.numMultiprocessors)}));
}
#endif
// A record of a kind that nobody asked for, which CUPTI may still write.
EXPORT void mock_unknown() {
  struct {
    CUpti_ActivityKind kind;
    uint8_t rest[28];
  } record{};
  for (Subscriber* s : subscribers) s->enabled.insert(CUPTI_ACTIVITY_KIND_JIT);
  put(make(CUPTI_ACTIVITY_KIND_JIT, record, {}));
}
// Bytes that are no record, at the end of the buffer.
EXPORT void mock_damage(uint32_t bytes) {
  for (Subscriber* s : subscribers) {
    std::lock_guard<std::mutex> guard(s->lock);
    if (!make_room(*s, bytes)) continue;
    std::memset(s->buffer + s->used, 0xFF, bytes);
    s->used += bytes;
    deliver(*s);
  }
}
EXPORT void mock_resource(CUpti_CallbackId id, uintptr_t context, const void* cubin, size_t size) {
  const auto handle = reinterpret_cast<CUcontext>(context);
  if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) contexts[handle] = static_cast<uint32_t>(contexts.size() + 1);
  CUpti_ModuleResourceData module{};
  module.moduleId = 1;
  module.cubinSize = size;
  module.pCubin = static_cast<const char*>(cubin);
  CUpti_ResourceData data{};
  data.context = handle;
  data.resourceDescriptor = cubin ? &module : nullptr;
  for (Subscriber* s : subscribers)
    if (has_callback(*s, CUPTI_CB_DOMAIN_RESOURCE, id)) s->callback(s->data, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

// ---- PC sampling: what a file says, line by line ----------------------------------------------------
//   pc CONTEXT CRC OFFSET FUNCTION CORRELATION REASON:SAMPLES ...      one place
//   totals CONTEXT TOTAL DROPPED NON_USER FULL                         with the next fetch
//   leave CONTEXT                                                      what follows is left in the
//                                                                      configured buffer
namespace {

struct Place {
  uint64_t crc, offset;
  std::string function;
  uint32_t correlation;
  std::vector<std::pair<uint32_t, uint32_t>> samples;
};
struct Sampled {
  bool is_enabled = false;
  std::vector<Place> places;
  uint64_t total = 0, dropped = 0, non_user = 0;
  bool is_full = false;
  CUpti_PCSamplingData* configured = nullptr;
  uint32_t period = 0, mode = 0;
};
std::map<CUcontext, Sampled> sampled;
uint64_t fetches = 0;  // calls of cuptiPCSamplingGetData
std::mutex sampling_lock;
// Numbers with gaps: an index is no place in a list.
const std::vector<std::pair<uint32_t, const char*>> kReasons = {
    {3, "smsp__pcsamp_warps_issue_stalled_long_scoreboard"},
    {4, "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued"},
    {7, "smsp__pcsamp_warps_issue_stalled_wait"},
    {8, "smsp__pcsamp_warps_issue_stalled_wait_not_issued"},
    {12, "smsp__pcsamp_warps_issue_stalled_no_instructions"},
    {20, "smsp__pcsamp_warps_issue_stalled_selected"}};

void give(CUpti_PCSamplingData& to, std::vector<Place>& from) {
  size_t n = 0;
  for (; n < from.size() && n < to.collectNumPcs; n++) {
    CUpti_PCSamplingPCData& place = to.pPcData[n];
    place.cubinCrc = from[n].crc;
    place.pcOffset = from[n].offset;
    place.functionIndex = 1;
    place.functionName = strdup(from[n].function.c_str());
    place.correlationId = from[n].correlation;
    place.stallReasonCount = from[n].samples.size();
    for (size_t k = 0; k < from[n].samples.size(); k++)
      place.stallReason[k] = {from[n].samples[k].first, from[n].samples[k].second};
  }
  from.erase(from.begin(), from.begin() + static_cast<long>(n));
  to.totalNumPcs = n;
  to.remainingNumPcs = from.size();
}

}  // namespace

EXPORT void mock_samples(const char* path) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  std::FILE* file = std::fopen(path, "r");
  char line[4096];
  while (file && std::fgets(line, sizeof line, file)) {
    char* rest = nullptr;
    const std::string verb = strtok_r(line, " \n", &rest);
    const auto word = [&rest] { char* w = strtok_r(nullptr, " \n", &rest); return std::string(w ? w : ""); };
    Sampled& s = sampled[reinterpret_cast<CUcontext>(0x1000 + std::stoull(word()))];
    if (verb == "pc") {
      Place place{std::stoull(word(), nullptr, 0), std::stoull(word(), nullptr, 0), word(), 0, {}};
      place.correlation = static_cast<uint32_t>(std::stoul(word()));
      for (std::string w = word(); !w.empty(); w = word())
        place.samples.emplace_back(std::stoul(w), std::stoul(w.substr(w.find(':') + 1)));
      s.places.push_back(place);
    } else if (verb == "totals") {
      s.total = std::stoull(word());
      s.dropped = std::stoull(word());
      s.non_user = std::stoull(word());
      s.is_full = word() == "1";
    } else if (verb == "leave" && s.configured) {
      give(*s.configured, s.places);
    }
  }
  if (file) std::fclose(file);
}
EXPORT uint64_t mock_fetches() {
  std::lock_guard<std::mutex> guard(sampling_lock);
  return fetches;
}
EXPORT CUptiResult CUPTIAPI cuptiGetCubinCrc(CUpti_GetCubinCrcParams* params) {
  uint64_t hash = 14695981039346656037ull;  // not CUPTI's; only that it is one number for one content
  for (size_t i = 0; i < params->cubinSize; i++) hash = (hash ^ static_cast<const uint8_t*>(params->cubin)[i]) * 1099511628211ull;
  params->cubinCrc = hash;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams* params) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  if (const long code = number_of("MOCK_NO_SAMPLING", 0)) return static_cast<CUptiResult>(code);
  if (const long ms = number_of("MOCK_SLOW_SAMPLING_MS", 0)) usleep(static_cast<useconds_t>(ms) * 1000);
  sampled[params->ctx].is_enabled = true;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams* params) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  Sampled& s = sampled[params->ctx];
  if (s.configured) give(*s.configured, s.places);
  s.is_enabled = false;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams* params) {
  *params->numStallReasons = kReasons.size();
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams* params) {
  for (size_t i = 0; i < params->numStallReasons; i++) {
    params->stallReasonIndex[i] = kReasons[i].first;
    std::strcpy(params->stallReasons[i], kReasons[i].second);
  }
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* params) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  Sampled& s = sampled[params->ctx];
  if (!s.is_enabled) return CUPTI_ERROR_INVALID_OPERATION;
  s.period = 14;  // ours unless another one is asked for
  for (size_t i = 0; i < params->numAttributes; i++) {
    const CUpti_PCSamplingConfigurationInfo& one = params->pPCSamplingConfigurationInfo[i];
    if (one.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER)
      s.configured = static_cast<CUpti_PCSamplingData*>(one.attributeData.samplingDataBufferData.samplingDataBuffer);
    if (one.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD)
      s.period = one.attributeData.samplingPeriodData.samplingPeriod;
    if (one.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE)
      s.mode = one.attributeData.collectionModeData.collectionMode;
  }
  if (number_of("MOCK_PERIOD", 0)) s.period = static_cast<uint32_t>(number_of("MOCK_PERIOD", 0));
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* params) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  params->pPCSamplingConfigurationInfo[0].attributeData.samplingPeriodData.samplingPeriod = sampled[params->ctx].period;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams* params) {
  std::lock_guard<std::mutex> guard(sampling_lock);
  fetches++;
  Sampled& s = sampled[params->ctx];
  if (!s.is_enabled) return CUPTI_ERROR_INVALID_OPERATION;
  auto& data = *static_cast<CUpti_PCSamplingData*>(params->pcSamplingData);
  data.totalSamples = s.total;
  data.droppedSamples = s.dropped;
  data.nonUsrKernelsTotalSamples = s.non_user;
  data.hardwareBufferFull = s.is_full;
  s.total = s.dropped = s.non_user = 0;
  if (s.is_full) {
    s.is_full = false;
    data.totalNumPcs = data.remainingNumPcs = 0;
    return CUPTI_ERROR_OUT_OF_MEMORY;
  }
  give(data, s.places);
  OK;
}

// ---- CUPTI ----------------------------------------------------------------------------------------

EXPORT CUptiResult CUPTIAPI cuptiGetVersion(uint32_t* version) {
  *version = static_cast<uint32_t>(number_of("MOCK_VERSION", CUPTI_API_VERSION));
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_NOT_SUPPORTED ? "CUPTI_ERROR_NOT_SUPPORTED" : "CUPTI_ERROR_OTHER";
  OK;
}
// The first so many readings end 20 ms after the moment that they tell, as where another thread has the core.
EXPORT CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* time) {
  static std::atomic<long> late{number_of("MOCK_LATE_CLOCKS", 0)};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (late.fetch_sub(1) > 0) usleep(20000);
  *time = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  static std::map<std::pair<int, uint32_t>, std::string> names;
  static const std::map<uint32_t, const char*> runtime = {
      {211, "cudaLaunchKernel_v7000"}, {165, "cudaDeviceSynchronize_v3020"},
      {10, "cudaGetLastError_v3020"}, {311, "cudaGraphLaunch_v10000"}, {135, "cudaEventRecord_v3020"}};
  auto& text = names[{domain, id}];
  if (text.empty()) {
    const auto known = runtime.find(id);
    text = domain == CUPTI_CB_DOMAIN_DRIVER_API ? (id == 719 ? "cuKernelGetName" : "cuLaunchKernel") : known != runtime.end() ? known->second : "cudaSomething_v1";
  }
  *name = text.c_str();
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiGetContextId(CUcontext context, uint32_t* id) { *id = contexts[context]; OK; }
EXPORT CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext context, uint32_t* id) { *id = contexts[context] - 1; OK; }
EXPORT CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { OK; }

static CUptiResult add_subscriber(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data) {
  auto* s = new Subscriber;
  s->callback = callback;
  s->data = data;
  subscribers.push_back(s);
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(s);
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data) {
  if (const long code = number_of("MOCK_REFUSE", 0)) return static_cast<CUptiResult>(code);
  if (text_of("MOCK_TAKEN") || !subscribers.empty()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  return add_subscriber(handle, callback, data);
}
#if CUPTI_API_VERSION >= 130000
EXPORT CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data,
                                              CUpti_SubscriberParams* params) {
  if (const long code = number_of("MOCK_REFUSE", 0)) return static_cast<CUptiResult>(code);
  uint32_t version;
  cuptiGetVersion(&version);
  // An older library knows no fields behind oldSubscriberSize.
  const size_t known = offsetof(CUpti_SubscriberParams, oldSubscriberSize) + sizeof params->oldSubscriberSize;
  if (version < 130200 && params->structSize != known) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const char* other = text_of("MOCK_TAKEN")) {
    std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "CUPTI for %s", other);
#if CUPTI_API_VERSION >= 130300
    if (version >= 130200 && params->allowMultipleSubscribers && number_of("MOCK_SHARES", 1)) has_foreign = true;
#endif
    if (!has_foreign) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  return add_subscriber(handle, callback, data);
}
#endif
EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) { OK; }
EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  auto& all = reinterpret_cast<Subscriber*>(handle)->callbacks;
  std::lock_guard<std::mutex> guard(reinterpret_cast<Subscriber*>(handle)->lock);
  if (on) all.insert({domain, id});
  else all.erase({domain, id});
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  subscribers[0]->request = request;
  subscribers[0]->complete = complete;
  OK;
}
// Enabling a kind enables all of its calls, whatever was chosen before.
static void enable_all_calls(Subscriber& s, int kind) {
  for (auto it = s.left_out.begin(); it != s.left_out.end();) it = it->first == kind ? s.left_out.erase(it) : std::next(it);
}
EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  const char* refused = text_of("MOCK_NO_KIND");
  if (refused && std::atoi(refused) == kind) return CUPTI_ERROR_NOT_SUPPORTED;
  std::lock_guard<std::mutex> guard(subscribers[0]->lock);
  subscribers[0]->enabled.insert(kind);
  enable_all_calls(*subscribers[0], kind);
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  std::lock_guard<std::mutex> guard(subscribers[0]->lock);
  subscribers[0]->enabled.erase(kind);
  OK;
}
#if CUPTI_API_VERSION >= 130000
static CUptiResult select_call(Subscriber& s, int kind, uint32_t id, bool is_recorded) {
  std::lock_guard<std::mutex> guard(s.lock);
  if (is_recorded)
    s.left_out.erase({kind, id});
  else if (!text_of("MOCK_KEEPS_QUERIES"))
    s.left_out.insert({kind, id});
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable) {
  return select_call(*subscribers[0], CUPTI_ACTIVITY_KIND_DRIVER, id, enable != 0);
}
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable) {
  return select_call(*subscribers[0], CUPTI_ACTIVITY_KIND_RUNTIME, id, enable != 0);
}
#endif
EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
  for (Subscriber* s : subscribers) {
    std::lock_guard<std::mutex> guard(s->lock);
    // A default flush returns only buffers whose records are all finished.
    if (flag || !s->incomplete) deliver(*s);
  }
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableHWTrace(uint8_t) {
  if (!number_of("MOCK_HES", 0)) return CUPTI_ERROR_NOT_SUPPORTED;
  OK;
}
// What CUPTI says when it finds out later that a device has no such events.
EXPORT void mock_no_hardware_times() {
  CUpti_StateData data{};
  data.notification.result = CUPTI_ERROR_NOT_SUPPORTED;
  for (Subscriber* s : subscribers)
    if (s->callbacks.count({CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_ERROR}))
      s->callback(s->data, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_ERROR, &data);
}
EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  size_t at = 0;
  if (*record) at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + size_of((*record)->kind);
  if (at >= valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(buffer + at);
  if (valid - at < 4 || size_of(next->kind) == 0 || at + size_of(next->kind) > valid) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = subscribers[0]->dropped;
  subscribers[0]->dropped = 0;
  OK;
}

#if CUPTI_API_VERSION >= 130300
EXPORT CUptiResult CUPTIAPI cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle handle, CUpti_ActivityAttribute attribute, size_t*, void* value) {
  if (attribute == CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS)
    reinterpret_cast<Subscriber*>(handle)->has_layouts = *static_cast<uint8_t*>(value) != 0;
  if (attribute == CUPTI_ACTIVITY_ATTR_ENABLE_HES && !number_of("MOCK_HES", 0)) return CUPTI_ERROR_NOT_SUPPORTED;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle handle, CUpti_BuffersCallbackRequestFunc_v2 request,
                                                              CUpti_BuffersCallbackCompleteFunc_v2 complete) {
  reinterpret_cast<Subscriber*>(handle)->request_v2 = request;
  reinterpret_cast<Subscriber*>(handle)->complete_v2 = complete;
  OK;
}
static size_t width_of(int kind, int field);
EXPORT CUptiResult CUPTIAPI cuptiActivityEnable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind, CUpti_ActivityConfig* config) {
  Subscriber& s = *reinterpret_cast<Subscriber*>(handle);
  if (!config || config->fieldSelection.numFields == 0 || config->fieldSelection.pFieldIds[0] != 0) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard<std::mutex> guard(s.lock);
  auto& layout = s.layouts[kind];
  layout.entries.clear();
  // The kind comes first; the others in reverse order, each on a multiple of its size: not as asked for.
  std::vector<int> fields(config->fieldSelection.pFieldIds + 1, config->fieldSelection.pFieldIds + config->fieldSelection.numFields);
  size_t at = 4;
  layout.entries.push_back({sizeof(CUpti_ActivityFieldLayoutEntry), 0, 0, 4, 4});
  for (size_t i = fields.size(); i-- > 0;) {
    const size_t width = width_of(kind, fields[i]);
    if (width == 0) return CUPTI_ERROR_INVALID_PARAMETER;
    at = (at + width - 1) / width * width;
    layout.entries.push_back({sizeof(CUpti_ActivityFieldLayoutEntry), fields[i], at, width, width});
    at += width;
  }
  layout.record = {sizeof layout.record, layout.entries.data(), layout.entries.size(), (at + 7) / 8 * 8};
  s.enabled.insert(kind);
  enable_all_calls(s, kind);
  OK;
}
#if CUPTI_API_VERSION >= 130500
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle handle, CUpti_CallbackId id, uint8_t enable) {
  return select_call(*reinterpret_cast<Subscriber*>(handle), CUPTI_ACTIVITY_KIND_DRIVER, id, enable != 0);
}
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle handle, CUpti_CallbackId id, uint8_t enable) {
  return select_call(*reinterpret_cast<Subscriber*>(handle), CUPTI_ACTIVITY_KIND_RUNTIME, id, enable != 0);
}
#endif
EXPORT CUptiResult CUPTIAPI cuptiActivityDisable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind, CUpti_ActivityConfig*) {
  Subscriber& s = *reinterpret_cast<Subscriber*>(handle);
  std::lock_guard<std::mutex> guard(s.lock);
  s.enabled.erase(kind);
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle handle, CUcontext, uint32_t, size_t* dropped) {
  *dropped = reinterpret_cast<Subscriber*>(handle)->dropped;
  reinterpret_cast<Subscriber*>(handle)->dropped = 0;
  OK;
}
EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle, uint8_t*, size_t, CUpti_Activity**) {
  return CUPTI_ERROR_NOT_SUPPORTED;  // records are to be read by their layout
}
static size_t width_of(int kind, int field) {
  // As wide as the structs' members are.
  static const std::map<int, std::set<int>> wide = {
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
       {KERNEL_FIELD_START, KERNEL_FIELD_END, KERNEL_FIELD_NAME, KERNEL_FIELD_GRAPH_NODE_ID, KERNEL_FIELD_LOCAL_MEMORY_TOTAL}},
      {CUPTI_ACTIVITY_KIND_RUNTIME, {API_FIELD_START, API_FIELD_END}},
      {CUPTI_ACTIVITY_KIND_DRIVER, {API_FIELD_START, API_FIELD_END}},
      {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, {EXTERNAL_CORRELATION_FIELD_EXTERNAL_ID}},
      {CUPTI_ACTIVITY_KIND_MEMCPY, {MEMCPY_FIELD_START, MEMCPY_FIELD_END, MEMCPY_FIELD_BYTES, MEMCPY_FIELD_GRAPH_NODE_ID}},
#if CUPTI_API_VERSION >= 130500
      {CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS, {MEM_DECOMPRESS_FIELD_START, MEM_DECOMPRESS_FIELD_END, MEM_DECOMPRESS_FIELD_SOURCE_BYTES}},
      {CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE, {GRAPH_HOST_NODE_FIELD_START, GRAPH_HOST_NODE_FIELD_END}},
      {CUPTI_ACTIVITY_KIND_HOST_LAUNCH, {HOST_LAUNCH_FIELD_START, HOST_LAUNCH_FIELD_END}},
#endif
      {CUPTI_ACTIVITY_KIND_DEVICE, {DEVICE_FIELD_NAME, DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH, DEVICE_FIELD_GLOBAL_MEMORY_SIZE}},
  };
  static const std::map<int, std::map<int, size_t>> narrow = {
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, {{KERNEL_FIELD_REGISTERS_PER_THREAD, 2}, {KERNEL_FIELD_LAUNCH_TYPE, 1}}},
      {CUPTI_ACTIVITY_KIND_MEMCPY, {{MEMCPY_FIELD_COPY_KIND, 1}, {MEMCPY_FIELD_SRC_KIND, 1}, {MEMCPY_FIELD_DST_KIND, 1}}},
  };
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE && field == DEVICE_FIELD_UUID) return sizeof(CUuuid);
  if (auto k = wide.find(kind); k != wide.end() && k->second.count(field)) return 8;
  if (auto k = narrow.find(kind); k != narrow.end())
    if (auto f = k->second.find(field); f != k->second.end()) return f->second;
  return 4;
}
#endif
