#include "cupti/ranges.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace sightline::cupti {
namespace {

// Of one thread before somebody takes them: some 100,000 ranges.
constexpr size_t kMostBytes = 8u << 20;
enum Kind : uint8_t { kPushPop = 1, kStartEnd = 2, kMark = 3 };

struct Domain {
  std::string name;
  std::map<uint32_t, std::string> categories;
};

// What travels to the writer; name, domain and category follow it.
struct Event {
  uint64_t start = 0, end = 0, payload = 0;
  uint32_t tid = 0, end_tid = 0, name_bytes = 0, domain_bytes = 0, category_bytes = 0;
  uint16_t depth = 0;
  uint8_t kind = 0, payload_type = 0;
};
struct Range {
  Event event;
  std::string name, domain, category;
};

struct Thread {
  std::mutex lock;
  uint32_t tid = static_cast<uint32_t>(syscall(SYS_gettid));
  std::map<const Domain*, std::vector<Range>> open;  // NVTX nests within a domain
  std::vector<uint8_t> done;
  uint32_t count = 0;
};

// Never destroyed: threads end after statics do.
struct Shared {
  std::mutex lock;
  std::vector<std::shared_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Domain>> domains;
  std::vector<std::unique_ptr<std::string>> strings;
  std::map<nvtxRangeId_t, Range> started;
  nvtxRangeId_t next = 1;
  Domain none;  // the default domain
  std::atomic<uint64_t> lost{0};
  std::atomic<bool> is_abandoned{false};
};
Shared& shared() {
  static Shared* one = new Shared;
  return *one;
}

thread_local bool has_own = false;  // false again in the child of a fork
Thread& thread() {
  thread_local std::shared_ptr<Thread> own;
  if (!has_own) {
    own = std::make_shared<Thread>();
    has_own = true;
    std::lock_guard<std::mutex> guard(shared().lock);
    shared().threads.push_back(own);
  }
  return *own;
}

// A fork waits until nobody is in here: else a lock that another thread holds would be held in the
// child for ever. First the shared lock, then those of threads: nobody takes them the other way.
void before_fork() {
  shared().lock.lock();
  for (const auto& one : shared().threads) one->lock.lock();
}
void unlock_all() {
  for (const auto& one : shared().threads) one->lock.unlock();
  shared().lock.unlock();
}

// The child begins anew: what was said before it is the parent's, and its other threads are gone.
void in_child() {
  for (const auto& one : shared().threads) one->lock.unlock();
  shared().threads.clear();
  shared().started.clear();
  shared().lost = 0;
  has_own = false;
  shared().lock.unlock();
}

Domain* domain_of(nvtxDomainHandle_t handle) {
  return handle ? reinterpret_cast<Domain*>(handle) : &shared().none;
}

std::string narrow(const wchar_t* text) {
  std::string out;
  for (; text && *text; text++) {
    const auto c = static_cast<uint32_t>(*text);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | c >> 6);
      out += static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
      out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
      out += static_cast<char>(0x80 | (c & 0x3F));
    } else {
      out += static_cast<char>(0xF0 | (c >> 18 & 7));
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
      out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
      out += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return out;
}

std::string text_of(const char* text) { return text ? text : ""; }

Range make_range(const Domain* domain, const nvtxEventAttributes_t* attributes, Kind kind) {
  Range range;
  range.event.kind = kind;
  range.domain = domain->name;
  if (attributes == nullptr) return range;
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII: range.name = text_of(attributes->message.ascii); break;
    case NVTX_MESSAGE_TYPE_UNICODE: range.name = narrow(attributes->message.unicode); break;
    case NVTX_MESSAGE_TYPE_REGISTERED:
      if (attributes->message.registered) range.name = *reinterpret_cast<const std::string*>(attributes->message.registered);
      break;
    default: break;
  }
  if (attributes->payloadType > 0 && attributes->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
    range.event.payload_type = static_cast<uint8_t>(attributes->payloadType);
    range.event.payload = attributes->payload.ullValue;
    if (attributes->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT32) range.event.payload &= 0xFFFFFFFFu;
  }
  if (attributes->category) {
    std::lock_guard<std::mutex> guard(shared().lock);
    const auto known = domain->categories.find(attributes->category);
    range.category = known != domain->categories.end() ? known->second : std::to_string(attributes->category);
  }
  return range;
}

// With the thread's lock held.
void keep(Thread& owner, Range& range) {
  if (owner.done.size() > kMostBytes) {
    shared().lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Event& event = range.event;
  event.name_bytes = static_cast<uint32_t>(range.name.size());
  event.domain_bytes = static_cast<uint32_t>(range.domain.size());
  event.category_bytes = static_cast<uint32_t>(range.category.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(&event);
  owner.done.insert(owner.done.end(), bytes, bytes + sizeof event);
  for (const std::string* text : {&range.name, &range.domain, &range.category})
    owner.done.insert(owner.done.end(), text->begin(), text->end());
  owner.count++;
}

int push(const Domain* domain, Range range) {
  if (shared().is_abandoned) return 0;
  Thread& own = thread();
  std::lock_guard<std::mutex> guard(own.lock);
  std::vector<Range>& open = own.open[domain];
  range.event.tid = range.event.end_tid = own.tid;
  range.event.depth = static_cast<uint16_t>(open.size());
  range.event.start = now_ns(CLOCK_REALTIME);
  open.push_back(std::move(range));
  return static_cast<int>(open.size()) - 1;
}

int pop(const Domain* domain) {
  if (shared().is_abandoned) return 0;
  const uint64_t end = now_ns(CLOCK_REALTIME);
  Thread& own = thread();
  std::lock_guard<std::mutex> guard(own.lock);
  std::vector<Range>& open = own.open[domain];
  if (open.empty()) return NVTX_NO_PUSH_POP_TRACKING;
  Range range = std::move(open.back());
  open.pop_back();
  range.event.end = end;
  keep(own, range);
  return static_cast<int>(open.size());
}

void mark(Range range) {
  if (shared().is_abandoned) return;
  Thread& own = thread();
  std::lock_guard<std::mutex> guard(own.lock);
  range.event.tid = range.event.end_tid = own.tid;
  range.event.start = range.event.end = now_ns(CLOCK_REALTIME);
  keep(own, range);
}

nvtxRangeId_t start(Range range) {
  if (shared().is_abandoned) return 0;
  range.event.tid = thread().tid;
  range.event.start = now_ns(CLOCK_REALTIME);
  std::lock_guard<std::mutex> guard(shared().lock);
  const nvtxRangeId_t id = shared().next++;
  shared().started.emplace(id, std::move(range));
  return id;
}

void end(nvtxRangeId_t id) {
  if (shared().is_abandoned) return;
  const uint64_t now = now_ns(CLOCK_REALTIME);
  Range range;
  {
    std::lock_guard<std::mutex> guard(shared().lock);
    auto found = shared().started.find(id);
    if (found == shared().started.end()) return;
    range = std::move(found->second);
    shared().started.erase(found);
  }
  Thread& own = thread();
  std::lock_guard<std::mutex> guard(own.lock);
  range.event.end = now;
  range.event.end_tid = own.tid;
  keep(own, range);
}

Range named(std::string name, Kind kind) {
  Range range;
  range.event.kind = kind;
  range.name = std::move(name);
  return range;
}

// ---- what NVTX calls -----------------------------------------------------------------------------
using Attributes = const nvtxEventAttributes_t*;
const Domain* none() { return &shared().none; }

void NVTX_API mark_ex(Attributes a) { mark(make_range(none(), a, kMark)); }
void NVTX_API mark_a(const char* text) { mark(named(text_of(text), kMark)); }
void NVTX_API mark_w(const wchar_t* text) { mark(named(narrow(text), kMark)); }
nvtxRangeId_t NVTX_API start_ex(Attributes a) { return start(make_range(none(), a, kStartEnd)); }
nvtxRangeId_t NVTX_API start_a(const char* text) { return start(named(text_of(text), kStartEnd)); }
nvtxRangeId_t NVTX_API start_w(const wchar_t* text) { return start(named(narrow(text), kStartEnd)); }
void NVTX_API end_range(nvtxRangeId_t id) { end(id); }
int NVTX_API push_ex(Attributes a) { return push(none(), make_range(none(), a, kPushPop)); }
int NVTX_API push_a(const char* text) { return push(none(), named(text_of(text), kPushPop)); }
int NVTX_API push_w(const wchar_t* text) { return push(none(), named(narrow(text), kPushPop)); }
int NVTX_API pop_range() { return pop(none()); }

void name_category(Domain* domain, uint32_t category, std::string name) {
  std::lock_guard<std::mutex> guard(shared().lock);
  domain->categories[category] = std::move(name);
}
void NVTX_API category_a(uint32_t category, const char* name) { name_category(&shared().none, category, text_of(name)); }
void NVTX_API category_w(uint32_t category, const wchar_t* name) { name_category(&shared().none, category, narrow(name)); }

void NVTX_API domain_mark(nvtxDomainHandle_t d, Attributes a) { mark(make_range(domain_of(d), a, kMark)); }
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t d, Attributes a) { return start(make_range(domain_of(d), a, kStartEnd)); }
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) { end(id); }
int NVTX_API domain_push(nvtxDomainHandle_t d, Attributes a) { return push(domain_of(d), make_range(domain_of(d), a, kPushPop)); }
int NVTX_API domain_pop(nvtxDomainHandle_t d) { return pop(domain_of(d)); }
void NVTX_API domain_category_a(nvtxDomainHandle_t d, uint32_t c, const char* name) { name_category(domain_of(d), c, text_of(name)); }
void NVTX_API domain_category_w(nvtxDomainHandle_t d, uint32_t c, const wchar_t* name) { name_category(domain_of(d), c, narrow(name)); }

nvtxStringHandle_t keep_string(std::string text) {
  std::lock_guard<std::mutex> guard(shared().lock);
  shared().strings.push_back(std::make_unique<std::string>(std::move(text)));
  return reinterpret_cast<nvtxStringHandle_t>(shared().strings.back().get());
}
nvtxStringHandle_t NVTX_API string_a(nvtxDomainHandle_t, const char* text) { return keep_string(text_of(text)); }
nvtxStringHandle_t NVTX_API string_w(nvtxDomainHandle_t, const wchar_t* text) { return keep_string(narrow(text)); }

nvtxDomainHandle_t keep_domain(std::string name) {
  std::lock_guard<std::mutex> guard(shared().lock);
  shared().domains.push_back(std::make_unique<Domain>(Domain{std::move(name), {}}));
  return reinterpret_cast<nvtxDomainHandle_t>(shared().domains.back().get());
}
nvtxDomainHandle_t NVTX_API domain_a(const char* name) { return keep_domain(text_of(name)); }
nvtxDomainHandle_t NVTX_API domain_w(const wchar_t* name) { return keep_domain(narrow(name)); }

std::vector<uint8_t> fill_ranges(Texts& texts, const std::vector<uint8_t>& data) {
  Rows rows;
  for (size_t at = 0; at + sizeof(Event) <= data.size();) {
    Event e;
    std::memcpy(&e, data.data() + at, sizeof e);
    at += sizeof e;
    uint32_t numbers[3];
    const uint32_t sizes[3] = {e.name_bytes, e.domain_bytes, e.category_bytes};
    for (int i = 0; i < 3; i++) {
      const std::string text(reinterpret_cast<const char*>(data.data()) + at, sizes[i]);
      at += sizes[i];
      numbers[i] = text.empty() ? 0 : texts.number_copy(text);
    }
    rows.put(e.start).put(e.end).put(e.tid).put(e.end_tid).put(e.kind);
    rows.put(numbers[0]).put(numbers[1]).put(numbers[2]).put(e.payload_type).put(e.payload).put(e.depth);
  }
  return std::move(rows.data);
}

}  // namespace

void take_ranges(Writer& writer, bool is_last) {
  std::vector<std::shared_ptr<Thread>> threads;
  std::vector<Range> open;
  {
    std::lock_guard<std::mutex> guard(shared().lock);
    threads = shared().threads;
    if (is_last)
      for (auto& [id, range] : shared().started) open.push_back(range);
  }
  for (const auto& one : threads) {
    std::vector<uint8_t> done;
    uint32_t count = 0;
    {
      std::lock_guard<std::mutex> guard(one->lock);
      if (is_last) {
        for (auto& [domain, ranges] : one->open)
          for (Range& range : ranges) keep(*one, range);
        for (Range& range : open) keep(*one, range);
        open.clear();
      }
      done.swap(one->done);
      count = one->count;
      one->count = 0;
    }
    if (count) writer.add_rows(kRanges, std::move(done), count, fill_ranges);
  }
  // Of threads that have ended only this list knows; what was made meanwhile is taken next time.
  threads.clear();
  std::lock_guard<std::mutex> guard(shared().lock);
  auto& known = shared().threads;
  const auto has_ended = [](const std::shared_ptr<Thread>& one) { return one.use_count() == 1 && one->count == 0; };
  known.erase(std::remove_if(known.begin(), known.end(), has_ended), known.end());
}

void prepare_ranges() {
  static const bool is_prepared = [] {
    shared();
    pthread_atfork(before_fork, unlock_all, in_child);
    return true;
  }();
  static_cast<void>(is_prepared);
}

uint64_t count_lost_ranges() { return shared().lost.load(); }
void abandon_ranges() { shared().is_abandoned = true; }

}  // namespace sightline::cupti

// What NVTX calls at a program's first range, in each library of the program that uses NVTX.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  using namespace sightline::cupti;
  prepare_ranges();
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  const auto set = [&](unsigned int number, auto* function) {
    if (number < size) *table[number] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) {
    set(NVTX_CBID_CORE_MarkEx, mark_ex);
    set(NVTX_CBID_CORE_MarkA, mark_a);
    set(NVTX_CBID_CORE_MarkW, mark_w);
    set(NVTX_CBID_CORE_RangeStartEx, start_ex);
    set(NVTX_CBID_CORE_RangeStartA, start_a);
    set(NVTX_CBID_CORE_RangeStartW, start_w);
    set(NVTX_CBID_CORE_RangeEnd, end_range);
    set(NVTX_CBID_CORE_RangePushEx, push_ex);
    set(NVTX_CBID_CORE_RangePushA, push_a);
    set(NVTX_CBID_CORE_RangePushW, push_w);
    set(NVTX_CBID_CORE_RangePop, pop_range);
    set(NVTX_CBID_CORE_NameCategoryA, category_a);
    set(NVTX_CBID_CORE_NameCategoryW, category_w);
  }
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) {
    set(NVTX_CBID_CORE2_DomainMarkEx, domain_mark);
    set(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start);
    set(NVTX_CBID_CORE2_DomainRangeEnd, domain_end);
    set(NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
    set(NVTX_CBID_CORE2_DomainRangePop, domain_pop);
    set(NVTX_CBID_CORE2_DomainNameCategoryA, domain_category_a);
    set(NVTX_CBID_CORE2_DomainNameCategoryW, domain_category_w);
    set(NVTX_CBID_CORE2_DomainRegisterStringA, string_a);
    set(NVTX_CBID_CORE2_DomainRegisterStringW, string_w);
    set(NVTX_CBID_CORE2_DomainCreateA, domain_a);
    set(NVTX_CBID_CORE2_DomainCreateW, domain_w);
  }
  return 1;
}

#else  // without NVTX's headers there are no ranges

namespace sightline::cupti {
void prepare_ranges() {}
void take_ranges(Writer&, bool) {}
uint64_t count_lost_ranges() { return 0; }
void abandon_ranges() {}
}  // namespace sightline::cupti

#endif
