#include "cupti/recorder.h"

#include "cupti/ranges.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace sightline::cupti {
namespace {

// The CUPTI of CUDA 12.9: an older one may crash where it is given no buffer (release notes of CUPTI 12.9;
// pytorch/kineto#1534).
constexpr uint32_t kMayBeRefused = 27;

// How often clocks are read for one comparison at most, and what takes no longer is quick enough.
constexpr int kClockReadings = 8;
constexpr uint64_t kQuickClocksNs = 5000;

#if CUPTI_API_VERSION >= 130000
// Calls that are not recorded: they ask the CPU for what it knows, in 0.1 to 0.4 us, say nothing of the
// GPU, and stand around each launch. In 20 steps of a small model (PyTorch 2.11, H100) they were 6,449 of
// 7,955 calls. cuKernelGetName is no call of the program's at all: before each launch that a tool is told
// of, the CUDA runtime asks the driver for the kernel's name (CUpti_CallbackData.symbolName).
constexpr CUpti_CallbackId kRuntimeQueries[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000};
constexpr CUpti_CallbackId kDriverQueries[] = {
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetName, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent,
    CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState};
#endif

Recorder* running = nullptr;  // CUPTI's buffer callbacks carry no data of ours

// Adds the time that it lives to a count.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<uint64_t>& total) : total_(total), start_(now_ns(CLOCK_MONOTONIC)) {}
  ~Stopwatch() { total_.fetch_add(now_ns(CLOCK_MONOTONIC) - start_, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>& total_;
  uint64_t start_;
};

void CUPTIAPI on_request(uint8_t** buffer, size_t* size, size_t* most) {
  running->request_buffer(buffer, size, most);
}

void CUPTIAPI on_complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  running->complete_buffer(buffer, valid, nullptr);
}

#if CUPTI_API_VERSION >= 130300
void CUPTIAPI on_request_v2(uint8_t** buffer, size_t* size, size_t* most, CUpti_BufferCallbackRequestInfo*) {
  running->request_buffer(buffer, size, most);
}

// Layouts are listed by activity kind, with null for kinds without one, and are CUPTI's: they are
// made into plans before this returns.
void CUPTIAPI on_complete_v2(uint8_t* buffer, size_t, size_t valid, CUpti_BufferCallbackCompleteInfo* info) {
  auto plans = std::make_shared<Plans>(list_kinds().size());
  for (size_t i = 0; info && info->ppRecordLayouts && i < list_kinds().size(); i++)
    for (CUpti_ActivityKind kind : list_kinds()[i].kinds) {
      const auto number = static_cast<size_t>(kind);
      if (number < info->numRecordLayouts && info->ppRecordLayouts[number])
        (*plans)[i] = plan_layout(list_kinds()[i], *info->ppRecordLayouts[number]);
    }
  running->complete_buffer(buffer, valid, std::move(plans));
}
#endif

void CUPTIAPI on_event(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  running->on_callback(domain, id, data);
}

}  // namespace

Recorder::Recorder(const Options& options) : options_(options), writer_(library_, options), throttle_(options.budget_pct) {}

void Recorder::start() {
  running = this;
  std::string why;
  const bool is_loaded = load_library(library_, why);
  std::string cannot;
  if (!writer_.start(cannot)) {
    std::fprintf(stderr, "sightline: the GPU is not recorded: %s\n", cannot.c_str());
    return;
  }
  if (!is_loaded) return refuse("no_cupti", why, "");
  writer_.add_facts(describe());
  if (!subscribe(why)) return refuse(other_.empty() ? "cupti_refused" : "cupti_taken", why, other_);
  state_.store(State::recording, std::memory_order_release);
  if (options_.sampling != Sampling::none) sampler_ = std::make_unique<Sampler>(library_, options_, writer_);
  set_up_callbacks();
  note_clocks();
  hardware_times_ = ask_for_hardware_times();
  enable_kinds();
  Facts facts;
  if (options_.budget_pct > 0) facts.add("budget_pct", options_.budget_pct);
  facts.add("measured", options_.measure);
  facts.add("hardware_times", hardware_times_);
  facts.add("interface", static_cast<int64_t>(has_layouts_ ? 2 : 1));
  facts.add("enabled", enabled_);
  facts.add("refused", refused_);
  if (!other_.empty()) facts.add("other_subscriber", other_);
  writer_.add_facts(facts);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // From here on: the thread may begin late, and a context be made before it does. It has used no core yet.
  opened_ = count_now();
  opened_.cpu = writer_.cpu_ns();
  decided_ = opened_;
  pacer_ = std::thread([this] { pace(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(pacer_.native_handle(), "sightline-pace");
}

Facts Recorder::describe() const {
  Facts facts;
  facts.add("cupti", library_.path);
  facts.add("cupti_version", static_cast<int64_t>(library_.version));
  facts.add("built_with", static_cast<int64_t>(CUPTI_API_VERSION));
  if (options_.rank >= 0) facts.add("rank", options_.rank);
  if (options_.world_size > 0) facts.add("world_size", options_.world_size);
  facts.add("buffer_bytes", static_cast<int64_t>(options_.buffer_bytes));
  facts.add("most_buffers", static_cast<int64_t>(options_.most_buffers));
  return facts;
}

// A file that says why there is no recording: the reader tells it to whoever opens the folder.
void Recorder::refuse(const std::string& kind, const std::string& why, const std::string& other) {
  std::fprintf(stderr, "sightline: the GPU is not recorded: %s\n", why.c_str());
  Facts facts = describe();
  facts.add("refusal", kind);
  facts.add("why", why);
  if (!other.empty()) facts.add("other_subscriber", other);
  writer_.finish(std::move(facts));
  state_.store(State::stopped, std::memory_order_release);
}

bool Recorder::subscribe(std::string& why) {
  CUptiResult result = CUPTI_SUCCESS;
#if CUPTI_API_VERSION >= 130300
  // 13.2 has the calls, but returns no layouts; from 13.3 on they are complete.
  if (library_.version >= 130300 && library_.cuptiActivityRegisterCallbacks_v2) return subscribe_layouts(why);
#endif
#if CUPTI_API_VERSION >= 130000
  // 13.0 and 13.1 name who is in the way. From 13.2 on the v1 calls that follow would be refused.
  if (library_.cuptiSubscribe_v2 && library_.version >= 130000 && library_.version < 130200) {
    char other[128] = "";
    CUpti_SubscriberParams params{};
    params.structSize = offsetof(CUpti_SubscriberParams, oldSubscriberSize) + sizeof params.oldSubscriberSize;
    params.subscriberName = "sightline";
    params.oldSubscriberName = other;
    params.oldSubscriberSize = sizeof other;
    result = library_.cuptiSubscribe_v2(&subscriber_, on_event, nullptr, &params);
    if (result != CUPTI_SUCCESS) other_ = other;
  } else
#endif
    result = library_.cuptiSubscribe(&subscriber_, on_event, nullptr);
  if (result == CUPTI_SUCCESS) return true;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    if (other_.empty()) other_ = name_other_profilers();
    if (other_.empty()) other_ = "another profiler";
    why = other_ + " is using CUPTI, which has room for one";
  } else {
    why = "cuptiSubscribe: " + library_.describe(result);
  }
  return false;
}

bool Recorder::subscribe_layouts(std::string& why) {
#if CUPTI_API_VERSION >= 130300
  char other[128] = "";
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "sightline";
  params.oldSubscriberName = other;
  params.oldSubscriberSize = sizeof other;
  params.allowMultipleSubscribers = 1;
  const CUptiResult result = library_.cuptiSubscribe_v2(&subscriber_, on_event, nullptr, &params);
  other_ = other;
  if (result != CUPTI_SUCCESS) {
    why = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? (other_.empty() ? "another profiler" : other_) + " is using CUPTI, and shares it with none"
              : "cuptiSubscribe_v2: " + library_.describe(result);
    return false;
  }
  uint8_t yes = 1;
  size_t size = sizeof yes;
  const CUptiResult set =
      library_.cuptiActivitySetAttribute_v2(subscriber_, CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS, &size, &yes);
  if (set != CUPTI_SUCCESS) {
    why = "user-defined records: " + library_.describe(set);
    library_.cuptiUnsubscribe(subscriber_);
    return false;
  }
  has_layouts_ = true;
  return true;
#else
  why = "this build has no interface v2";
  return false;
#endif
}

void Recorder::set_up_callbacks() {
  const CUpti_CallbackId resources[] = {
      CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
      CUPTI_CBID_RESOURCE_MODULE_LOADED};
  for (CUpti_CallbackId id : resources) {
    if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED && !sampler_) continue;  // modules are kept for samples
    library_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id);
  }
  CUptiResult result = CUPTI_SUCCESS;
#if CUPTI_API_VERSION >= 130300
  if (has_layouts_) {
    size_t size = sizeof(CUpti_ActivityThreadIdType);
    CUpti_ActivityThreadIdType type = CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
    library_.cuptiActivitySetAttribute_v2(subscriber_, CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE, &size, &type);
    result = library_.cuptiActivityRegisterCallbacks_v2(subscriber_, on_request_v2, on_complete_v2);
  } else
#endif
  {
    library_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    result = library_.cuptiActivityRegisterCallbacks(on_request, on_complete);
  }
  if (result != CUPTI_SUCCESS) refused_.push_back("activities: " + library_.describe(result));
}

// Times of kernels by the hardware's own events (HES), from Blackwell on: nothing is put around a kernel.
// "on", or why not: CUPTI's own method is used then. To be asked for before there is a context. Samples
// were not tried with it. Only where somebody asks: what CUPTI decodes after a flush was seen to write
// into the program's heap on GB200 (NVIDIA's bug 6274883; pytorch/pytorch#186861, #195844).
std::string Recorder::ask_for_hardware_times() {
  if (!options_.hardware_times) return "not wanted";
  if (sampler_) return "not with samples";
  CUptiResult result = CUPTI_ERROR_NOT_SUPPORTED;
#if CUPTI_API_VERSION >= 130300
  if (has_layouts_) {
    uint8_t yes = 1;
    size_t size = sizeof yes;
    result = library_.cuptiActivitySetAttribute_v2(subscriber_, CUPTI_ACTIVITY_ATTR_ENABLE_HES, &size, &yes);
  } else
#endif
  {
    if (!library_.cuptiActivityEnableHWTrace) return "not offered";
    result = library_.cuptiActivityEnableHWTrace(1);
  }
  if (result != CUPTI_SUCCESS) return library_.describe(result);
  // Asked before the driver is there, CUPTI may find out later that the device has none.
  library_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_ERROR);
  return "on";
}

CUptiResult Recorder::enable(size_t kind) {
  const CUptiResult result = enable_kind(kind);
  if (result == CUPTI_SUCCESS && list_kinds()[kind].is_call) leave_out_queries(list_kinds()[kind].kinds[0]);
  return result;
}

// Each time anew, as enabling a kind overrides it (cupti_activity.h). What an older CUPTI or another
// tool records of it, the reader takes as it comes.
void Recorder::leave_out_queries(CUpti_ActivityKind kind) {
#if CUPTI_API_VERSION >= 130000
  const bool is_driver = kind == CUPTI_ACTIVITY_KIND_DRIVER;
  const auto& queries = is_driver ? kDriverQueries : kRuntimeQueries;
#if CUPTI_API_VERSION >= 130500
  if (has_layouts_) {
    auto* select = is_driver ? library_.cuptiActivityEnableDriverApi_v2 : library_.cuptiActivityEnableRuntimeApi_v2;
    for (CUpti_CallbackId id : queries)
      if (select) select(subscriber_, id, 0);
    return;
  }
#endif
  auto* select = is_driver ? library_.cuptiActivityEnableDriverApi : library_.cuptiActivityEnableRuntimeApi;
  for (CUpti_CallbackId id : queries)
    if (select && !has_layouts_) select(id, 0);
#else
  (void)kind;
#endif
}

CUptiResult Recorder::enable_kind(size_t kind) {
  const Kind& one = list_kinds()[kind];
#if CUPTI_API_VERSION >= 130300
  if (has_layouts_) {
    std::vector<int> fields = {0};  // the first field of a selection must be the kind
    for (const Column& column : one.columns)
      if (column.field > 0 && column.field != fields.back()) fields.push_back(column.field);
    CUpti_ActivityConfig config{};
    config.structSize = sizeof config;
    config.fieldSelection.structSize = sizeof config.fieldSelection;
    config.fieldSelection.numFields = fields.size();
    config.fieldSelection.pFieldIds = fields.data();
    return library_.cuptiActivityEnable_v2(subscriber_, one.kinds[0], &config);
  }
#endif
  return library_.cuptiActivityEnable(one.kinds[0]);
}

void Recorder::disable(size_t kind) {
  const Kind& one = list_kinds()[kind];
#if CUPTI_API_VERSION >= 130300
  if (has_layouts_) {
    library_.cuptiActivityDisable_v2(subscriber_, one.kinds[0], nullptr);
    return;
  }
#endif
  library_.cuptiActivityDisable(one.kinds[0]);
}

// Where graphs are recorded whole, CUPTI leaves out their nodes.
bool Recorder::is_wanted(size_t kind) const {
  const Kind& one = list_kinds()[kind];
  if (one.kinds[0] == CUPTI_ACTIVITY_KIND_DEVICE || one.kinds[0] == CUPTI_ACTIVITY_KIND_CONTEXT) return true;
  if (!is_on_) return false;
  if (one.is_call) return options_.calls && level_ < kNoCalls;
  if (one.kinds[0] == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) return options_.whole_graphs || level_ >= kWholeGraphs;
  return true;
}

void Recorder::apply() {
  for (size_t i = 0; i < list_kinds().size(); i++) {
    if (!can_[i] || is_enabled_[i] == is_wanted(i)) continue;
    is_enabled_[i] = !is_enabled_[i];
    if (is_enabled_[i])
      enable(i);
    else
      disable(i);
  }
}

void Recorder::enable_kinds() {
  can_.assign(list_kinds().size(), true);
  is_enabled_.assign(list_kinds().size(), false);
  for (size_t i = 0; i < list_kinds().size(); i++) {
    const bool is_extra = list_kinds()[i].since != 0;
    if (library_.version < list_kinds()[i].since) can_[i] = false;
    if (!can_[i] || !is_wanted(i)) continue;
    const CUptiResult result = enable(i);
    can_[i] = is_enabled_[i] = result == CUPTI_SUCCESS;
    if (result == CUPTI_SUCCESS)
      enabled_.push_back(list_kinds()[i].table);
    else if (!is_extra)
      refused_.push_back(std::string(list_kinds()[i].table) + ": " + library_.describe(result));
  }
}

void Recorder::request_buffer(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = nullptr;
  *size = 0;
  *most = 0;
  if (state_.load(std::memory_order_acquire) == State::forked) return;
  Stopwatch watch(own_ns_);
  if (is_recording()) {
    if ((*buffer = writer_.take_buffer())) {
      *size = options_.buffer_bytes;
      return;
    }
    refused_buffers_.fetch_add(1, std::memory_order_relaxed);
  }
  if (library_.version >= kMayBeRefused) return;
  if ((*buffer = writer_.take_waste())) *size = kWasteBytes;
}

void Recorder::complete_buffer(uint8_t* buffer, size_t valid, std::shared_ptr<const Plans> plans) {
  if (state_.load(std::memory_order_acquire) == State::forked || buffer == nullptr) return;
  Stopwatch watch(own_ns_);
  if (library_.version < kMayBeRefused && writer_.is_waste(buffer)) {
    const uint64_t count = writer_.give_waste(buffer, valid);
    if (count && is_recording()) add_drops(count);
  } else if (is_recording()) {
    writer_.give_buffer(buffer, valid, std::move(plans));
  }
  if (is_recording()) note_drops();
}

void Recorder::add_drops(uint64_t count) {
  dropped_.fetch_add(count, std::memory_order_relaxed);
  Rows row;
  row.put(now_ns(CLOCK_REALTIME)).put(count).put(uint64_t{0});
  writer_.add_rows(kDrops, std::move(row.data), 1);
}

void Recorder::note_drops() {
  size_t dropped = 0;
#if CUPTI_API_VERSION >= 130300
  if (has_layouts_)
    library_.cuptiActivityGetNumDroppedRecords_v2(subscriber_, nullptr, 0, &dropped);
  else
#endif
    library_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  if (dropped) add_drops(dropped);
}

void Recorder::on_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (!is_recording()) return;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    // In windows and pauses alike: what it costs is in both.
    if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER)
      launches_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (domain == CUPTI_CB_DOMAIN_STATE) {
    Facts facts;
    facts.add("hardware_times", library_.describe(static_cast<const CUpti_StateData*>(data)->notification.result));
    writer_.add_facts(facts);
    return;
  }
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  Stopwatch watch(own_ns_), once(once_ns_);
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  switch (id) {
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
      if (sampler_) sampler_->add_context(resource->context);
      break;
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      if (sampler_) sampler_->remove_context(resource->context);
      library_.cuptiActivityFlushAll(0);
      break;
    case CUPTI_CBID_RESOURCE_MODULE_LOADED:
      if (sampler_ && resource->resourceDescriptor) {
        const auto* module = static_cast<const CUpti_ModuleResourceData*>(resource->resourceDescriptor);
        sampler_->keep_cubin(module->pCubin, module->cubinSize);
      }
      break;
    default: break;
  }
}

// A thread that loses its core between two clocks reads them milliseconds apart: of some readings
// the quickest is taken.
void Recorder::note_clocks() {
  uint64_t cupti = 0, realtime = 0, monotonic = 0, quickest = UINT64_MAX;
  for (int reading = 0; reading < kClockReadings && quickest > kQuickClocksNs; ++reading) {
    uint64_t asked = 0;
    const uint64_t before = now_ns(CLOCK_MONOTONIC);
    library_.cuptiGetTimestamp(&asked);
    const uint64_t wall = now_ns(CLOCK_REALTIME), after = now_ns(CLOCK_MONOTONIC);
    if (after - before >= quickest) continue;
    quickest = after - before;
    cupti = asked, realtime = wall, monotonic = after;
  }
  Rows row;
  row.put(cupti).put(realtime).put(monotonic);
  writer_.add_rows(kClocks, std::move(row.data), 1);
}

Recorder::Counts Recorder::count_now() {
  Counts now;
  library_.cuptiGetTimestamp(&now.cupti);
  now.wall = now_ns(CLOCK_MONOTONIC);
  now.launches = launches_.load(std::memory_order_relaxed);
  now.records = writer_.records();
  now.own = own_ns_.load(std::memory_order_relaxed);
  now.once = once_ns_.load(std::memory_order_relaxed);
  now.cpu = writer_.cpu_ns() + thread_ns(pthread_self());
  return now;
}

// How fast the program goes, in windows and pauses: launches, counted as they are asked for.
void Recorder::count_launches() {
  const CUpti_CallbackId launches[] = {
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
      CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
      CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,       CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz};
  for (CUpti_CallbackId id : launches) library_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, id);
  is_counting_ = true;
}

void Recorder::start_windows() {
  if (!is_counting_) count_launches();
  windows_ = std::make_unique<Windows>(options_.on_ms * 1000000ull, options_.off_ms * 1000000ull,
                                       now_ns(CLOCK_REALTIME) ^ static_cast<uint64_t>(getpid()) << 32);
  window_ends_ = 0;
}

// A row for the stretch that ends now; the next one begins.
void Recorder::close_window() {
  const Counts now = count_now();
  Rows row;
  row.put(opened_.cupti).put(now.cupti).put(static_cast<uint8_t>(level_)).put(static_cast<uint8_t>(is_on_));
  row.put(now.launches - opened_.launches).put(now.records - opened_.records);
  row.put(now.own - opened_.own).put(now.cpu - opened_.cpu).put(static_cast<uint8_t>(windows_ != nullptr));
  writer_.add_rows(kWindows, std::move(row.data), 1);
  opened_ = now;
}

void Recorder::pace_windows(uint64_t now) {
  if (!windows_ || now < window_ends_) return;
  if (window_ends_) close_window();
  const Windows::Next next = windows_->next();
  is_on_ = next.is_on;
  window_ends_ = now + next.length_ns;
  apply();
  opened_ = count_now();  // what switching costs is in neither
}

void Recorder::pace_budget(uint64_t now) {
  if (options_.budget_pct <= 0 || now - decided_.wall < options_.decide_ms * 1000000ull) return;
  const Counts counted = count_now();
  // Without what a context or a module takes once: to record less afterwards saves none of it. To set up
  // PC sampling takes 75 ms (H100), which alone is over any budget of the second that it falls into.
  const uint64_t once = counted.once - decided_.once;
  const uint64_t own = counted.own - decided_.own;
  const Cost cost{counted.wall - decided_.wall, own > once ? own - once : 0, counted.cpu - decided_.cpu};
  decided_ = counted;
  const int level = throttle_.decide(cost);
  if (level == level_) return;
  close_window();
  level_ = level;
  if (level_ == kOnlyWindows && !windows_) start_windows();
  if (level_ < kOnlyWindows && windows_ && !options_.measure) {
    windows_.reset();
    is_on_ = true;
  }
  apply();
}

// Fetches what CUPTI holds, so that a program that is killed loses no more than the last moment.
void Recorder::pace() {
  uint32_t step_ms = options_.flush_ms;
  if (sampler_ && options_.drain_ms < step_ms) step_ms = options_.drain_ms;
  if (options_.budget_pct > 0 && options_.decide_ms < step_ms) step_ms = options_.decide_ms;
  // Windows are switched this much late at most; their rows say when they were.
  if ((options_.budget_pct > 0 || options_.measure) && step_ms > 10) step_ms = 10;
  const auto step = std::chrono::milliseconds(step_ms);
  uint64_t flushed = now_ns(CLOCK_MONOTONIC), fetched = flushed;
  if (options_.measure) start_windows();
  std::unique_lock<std::mutex> guard(pace_lock_);
  while (!is_over_.wait_for(guard, step, [this] { return over_; })) {
    guard.unlock();
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    pace_windows(now);
    pace_budget(now);
    if (sampler_ && now - fetched >= options_.drain_ms * 1000000ull * 9 / 10) {
      fetched = now;
      sampler_->fetch();
    }
    if (now - flushed >= options_.flush_ms * 1000000ull * 9 / 10) {
      flushed = now;
      library_.cuptiActivityFlushAll(0);
      take_ranges(writer_, false);
      note_clocks();
    }
    guard.lock();
  }
  close_window();
}

void Recorder::stop() {
  if (!is_recording()) return;
  {
    std::lock_guard<std::mutex> guard(pace_lock_);
    if (over_) return;
    over_ = true;
  }
  is_over_.notify_all();
  if (pacer_.joinable()) pacer_.join();
  if (sampler_) sampler_->finish();
  library_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  take_ranges(writer_, true);
  note_drops();
  note_clocks();
  Facts facts;
  facts.add("ended", true);
  facts.add("dropped", static_cast<int64_t>(dropped_.load()));
  facts.add("refused_buffers", static_cast<int64_t>(refused_buffers_.load()));
  facts.add("lost_ranges", static_cast<int64_t>(count_lost_ranges()));
  facts.add("own_ns", static_cast<int64_t>(own_ns_.load()));
  state_.store(State::stopped, std::memory_order_release);
  writer_.finish(std::move(facts));
}

void Recorder::abandon() {
  state_.store(State::forked, std::memory_order_release);
  abandon_ranges();
  writer_.abandon();
}

}  // namespace sightline::cupti
