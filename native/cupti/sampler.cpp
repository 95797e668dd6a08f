#include "cupti/sampler.h"

#include <time.h>

#include <cstdio>
#include <cstring>

#include <cupti_pcsampling.h>

namespace sightline::cupti {
namespace {

// Places that are fetched at once. With 30 reasons one takes some 300 bytes: 1.5 MB a buffer.
constexpr size_t kPlaces = 5000;
// What CUPTI allocates of its own for a context: its defaults are 1 MB and 512 MB
// (cupti_pcsampling.h); half the latter is enough at our periods, and leaves the program its memory.
constexpr size_t kScratchBytes = 4u << 20, kHardwareBytes = 256u << 20;
constexpr size_t kNameBytes = 128;  // CUPTI_STALL_REASON_STRING_SIZE
// Samples that travel to the writer's thread with their function's name behind them.
struct Sample {
  uint64_t time, cubin, offset;
  uint32_t context, function_index, correlation, reason, samples, name_bytes;
};

// The rows of the table `samples`, on the thread that numbers texts.
std::vector<uint8_t> fill_samples(Texts& texts, const std::vector<uint8_t>& data) {
  Rows rows;
  for (size_t at = 0; at + sizeof(Sample) <= data.size();) {
    Sample one;
    std::memcpy(&one, data.data() + at, sizeof one);
    at += sizeof one;
    const std::string name(reinterpret_cast<const char*>(data.data()) + at, one.name_bytes);
    at += one.name_bytes;
    rows.put(one.time).put(one.context).put(one.cubin).put(one.offset).put(one.function_index);
    rows.put(name.empty() ? uint32_t{0} : texts.number_copy(name)).put(one.correlation).put(one.reason).put(one.samples);
  }
  return std::move(rows.data);
}

struct Reason {
  uint32_t context, reason;
  char name[kNameBytes];
};

std::vector<uint8_t> fill_reasons(Texts& texts, const std::vector<uint8_t>& data) {
  Rows rows;
  for (size_t at = 0; at + sizeof(Reason) <= data.size(); at += sizeof(Reason)) {
    Reason one;
    std::memcpy(&one, data.data() + at, sizeof one);
    one.name[kNameBytes - 1] = 0;
    rows.put(one.context).put(one.reason).put(texts.number_copy(one.name));
  }
  return std::move(rows.data);
}

template <typename T>
void append(std::vector<uint8_t>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

}  // namespace

Sampler::Sampler(const Library& library, const Options& options, Writer& writer)
    : library_(library), options_(options), writer_(writer) {}

void Sampler::Buffer::prepare(size_t count, size_t reasons_each) {
  places.assign(count, {});
  reasons.assign(count * reasons_each, {});
  for (size_t i = 0; i < count; i++) {
    places[i].size = sizeof(CUpti_PCSamplingPCData);
    places[i].stallReason = reasons.data() + i * reasons_each;
  }
  data = {};
  data.size = sizeof data;
  data.collectNumPcs = count;
  data.pPcData = places.data();
}

void Sampler::note(const std::string& problem) {
  if (!problems_.insert(problem).second) return;
  Facts facts;
  facts.add("sampling_problems", std::vector<std::string>(problems_.begin(), problems_.end()));
  writer_.add_facts(facts);
}

void Sampler::add_context(CUcontext handle) {
  std::lock_guard<std::mutex> guard(lock_);
  if (contexts_.count(handle)) return;
  if (library_.cuptiPCSamplingEnable == nullptr || library_.cuptiPCSamplingGetData == nullptr) {
    note("this CUPTI has no PC sampling");
    return;
  }
  auto context = std::make_unique<Context>();
  library_.cuptiGetContextId(handle, &context->number);
  library_.cuptiGetDeviceId(handle, &context->device);
  std::string why;
  if (enable(handle, *context, why)) {
    contexts_[handle] = std::move(context);
  } else {
    note(why);
  }
}

bool Sampler::enable(CUcontext handle, Context& context, std::string& why) {
  CUpti_PCSamplingEnableParams params{};
  params.size = CUpti_PCSamplingEnableParamsSize;
  params.ctx = handle;
  const CUptiResult result = library_.cuptiPCSamplingEnable(&params);
  if (result != CUPTI_SUCCESS) {
    why = "PC sampling: " + library_.describe(result);
    return false;
  }
  read_reasons(handle, context);
  if (configure(handle, context, why)) return true;
  CUpti_PCSamplingDisableParams off{};
  off.size = CUpti_PCSamplingDisableParamsSize;
  off.ctx = handle;
  library_.cuptiPCSamplingDisable(&off);
  return false;
}

void Sampler::read_reasons(CUcontext handle, Context& context) {
  size_t count = 0;
  CUpti_PCSamplingGetNumStallReasonsParams ask{};
  ask.size = CUpti_PCSamplingGetNumStallReasonsParamsSize;
  ask.ctx = handle;
  ask.numStallReasons = &count;
  if (library_.cuptiPCSamplingGetNumStallReasons(&ask) != CUPTI_SUCCESS || count > 4096) return;
  context.reasons.resize(count);
  std::vector<char> names(count * kNameBytes);
  std::vector<char*> pointers(count);
  for (size_t i = 0; i < count; i++) pointers[i] = names.data() + i * kNameBytes;
  CUpti_PCSamplingGetStallReasonsParams get{};
  get.size = CUpti_PCSamplingGetStallReasonsParamsSize;
  get.ctx = handle;
  get.numStallReasons = count;
  get.stallReasonIndex = context.reasons.data();
  get.stallReasons = pointers.data();
  if (library_.cuptiPCSamplingGetStallReasons(&get) != CUPTI_SUCCESS) {
    context.reasons.clear();
    return;
  }
  std::vector<uint8_t> rows;
  for (size_t i = 0; i < count; i++) {
    Reason one{context.number, context.reasons[i], {}};
    std::strncpy(one.name, pointers[i], kNameBytes - 1);
    append(rows, one);
  }
  writer_.add_rows(kStallReasons, std::move(rows), static_cast<uint32_t>(count), fill_reasons);
}

bool Sampler::configure(CUcontext handle, Context& context, std::string& why) {
  context.configured.prepare(kPlaces, context.reasons.size());
  context.fetched.prepare(kPlaces, context.reasons.size());
  std::vector<CUpti_PCSamplingConfigurationInfo> all;
  all.reserve(8);
  const auto add = [&all](CUpti_PCSamplingConfigurationAttributeType type) -> auto& {
    all.emplace_back();
    all.back().attributeType = type;
    return all.back().attributeData;
  };
  add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE).collectionModeData.collectionMode =
      options_.sampling == Sampling::serialized ? CUPTI_PC_SAMPLING_COLLECTION_MODE_KERNEL_SERIALIZED
                                                : CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
  if (options_.period)
    add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD).samplingPeriodData.samplingPeriod = options_.period;
  auto& reasons = add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON).stallReasonData;
  reasons.stallReasonCount = context.reasons.size();
  reasons.pStallReasonIndex = context.reasons.data();
  add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE).scratchBufferSizeData.scratchBufferSize = kScratchBytes;
  add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE).hardwareBufferSizeData.hardwareBufferSize = kHardwareBytes;
  add(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER).samplingDataBufferData.samplingDataBuffer =
      &context.configured.data;
  CUpti_PCSamplingConfigurationInfoParams params{};
  params.size = CUpti_PCSamplingConfigurationInfoParamsSize;
  params.ctx = handle;
  params.numAttributes = all.size();
  params.pPCSamplingConfigurationInfo = all.data();
  const CUptiResult result = library_.cuptiPCSamplingSetConfigurationAttribute(&params);
  if (result != CUPTI_SUCCESS) {
    why = "PC sampling cannot be configured: " + library_.describe(result);
    return false;
  }
  // The period in force may be another one than was asked for.
  CUpti_PCSamplingConfigurationInfo period{};
  period.attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
  params.numAttributes = 1;
  params.pPCSamplingConfigurationInfo = &period;
  if (library_.cuptiPCSamplingGetConfigurationAttribute &&
      library_.cuptiPCSamplingGetConfigurationAttribute(&params) == CUPTI_SUCCESS)
    context.period = period.attributeData.samplingPeriodData.samplingPeriod;
  return true;
}

void Sampler::fetch() {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto& [handle, context] : contexts_) fetch_context(handle, *context);
}

void Sampler::fetch_context(CUcontext handle, Context& context) {
  // What CUPTI put into the configured buffer when a module was loaded.
  if (context.configured.data.totalNumPcs) keep(context, context.configured.data, false);
  for (;;) {
    CUpti_PCSamplingGetDataParams params{};
    params.size = CUpti_PCSamplingGetDataParamsSize;
    params.ctx = handle;
    params.pcSamplingData = &context.fetched.data;
    const CUptiResult result = library_.cuptiPCSamplingGetData(&params);
    // A full hardware buffer is told by this error, and then there is no data.
    const bool is_full = result == CUPTI_ERROR_OUT_OF_MEMORY;
    if (result != CUPTI_SUCCESS && !is_full) return note("PC samples: " + library_.describe(result));
    const size_t left = context.fetched.data.remainingNumPcs;
    const size_t got = context.fetched.data.totalNumPcs;
    keep(context, context.fetched.data, is_full);
    if (is_full || left == 0 || got == 0) return;
  }
}

void Sampler::keep(const Context& context, CUpti_PCSamplingData& data, bool is_full) {
  const uint64_t time = now_ns(CLOCK_REALTIME);
  std::vector<uint8_t> rows;
  uint32_t count = 0;
  for (size_t i = 0; i < data.totalNumPcs && i < data.collectNumPcs; i++) {
    const CUpti_PCSamplingPCData& place = data.pPcData[i];
    const size_t name_bytes = place.functionName ? std::strlen(place.functionName) : 0;
    for (size_t k = 0; k < place.stallReasonCount && k < context.reasons.size(); k++) {
      if (place.stallReason[k].samples == 0) continue;
      append(rows, Sample{time, place.cubinCrc, place.pcOffset, context.number, place.functionIndex,
                          place.correlationId, place.stallReason[k].pcSamplingStallReasonIndex,
                          place.stallReason[k].samples, static_cast<uint32_t>(name_bytes)});
      rows.insert(rows.end(), place.functionName, place.functionName + name_bytes);
      count++;
    }
  }
  if (count) writer_.add_rows(kSamples, std::move(rows), count, fill_samples);
  is_full = is_full || data.hardwareBufferFull;
  if (data.totalSamples || data.droppedSamples || data.nonUsrKernelsTotalSamples || is_full) {
    Rows row;
    row.put(time).put(context.number).put(context.device).put(data.totalSamples).put(data.droppedSamples);
    row.put(data.nonUsrKernelsTotalSamples).put(static_cast<uint8_t>(is_full));
    row.put(static_cast<uint8_t>(options_.sampling == Sampling::serialized ? 2 : 1)).put(context.period);
    writer_.add_rows(kSampleTotals, std::move(row.data), 1);
  }
  data.totalNumPcs = data.remainingNumPcs = 0;
  data.totalSamples = data.droppedSamples = data.nonUsrKernelsTotalSamples = 0;
  data.hardwareBufferFull = 0;
}

void Sampler::remove_context(CUcontext handle) {
  std::lock_guard<std::mutex> guard(lock_);
  auto found = contexts_.find(handle);
  if (found == contexts_.end()) return;
  Context& context = *found->second;
  fetch_context(handle, context);
  CUpti_PCSamplingDisableParams params{};
  params.size = CUpti_PCSamplingDisableParamsSize;
  params.ctx = handle;
  library_.cuptiPCSamplingDisable(&params);
  // Disabling puts what was left into the configured buffer.
  if (context.configured.data.totalNumPcs) keep(context, context.configured.data, false);
  contexts_.erase(found);
}

void Sampler::keep_cubin(const void* cubin, size_t size) {
  if (cubin == nullptr || size == 0 || library_.cuptiGetCubinCrc == nullptr) return;
  CUpti_GetCubinCrcParams params{};
  params.size = CUpti_GetCubinCrcParamsSize;
  params.cubin = cubin;
  params.cubinSize = size;
  if (library_.cuptiGetCubinCrc(&params) != CUPTI_SUCCESS) return;
  std::lock_guard<std::mutex> guard(cubins_lock_);
  if (!kept_.insert(params.cubinCrc).second) return;
  if (cubin_bytes_ + size > options_.most_cubin_bytes) {
    Facts facts;
    facts.add("cubins_left_out", static_cast<int64_t>(++cubins_left_out_));
    writer_.add_facts(facts);
    return;
  }
  cubin_bytes_ += size;
  writer_.add_blob(params.cubinCrc, static_cast<const uint8_t*>(cubin), size);
}

void Sampler::finish() {
  std::vector<CUcontext> handles;
  {
    std::lock_guard<std::mutex> guard(lock_);
    for (const auto& [handle, context] : contexts_) handles.push_back(handle);
  }
  for (CUcontext handle : handles) remove_context(handle);
}

}  // namespace sightline::cupti
