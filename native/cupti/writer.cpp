#include "cupti/writer.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sightline::cupti {
namespace {

// Structs of CUPTI 12.4 end before the last columns of newer ones: what is read behind the last
// record is memory of ours.
constexpr size_t kBehind = 256;
// Rows, blobs and facts that wait. What comes on top is let go and counted, as CUPTI does.
constexpr uint64_t kMostQueued = 256u << 20;

size_t count_kinds() { return list_kinds().size(); }

}  // namespace

uint64_t now_ns(int clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

Writer::Writer(const Library& library, const Options& options)
    : library_(library), options_(options), parts_(count_kinds()), named_calls_(count_kinds()) {
  kind_of_.assign(256, -1);
  for (size_t i = 0; i < count_kinds(); i++) {
    structs_.push_back(plan_structs(list_kinds()[i]));
    for (CUpti_ActivityKind kind : list_kinds()[i].kinds) kind_of_[static_cast<size_t>(kind)] = static_cast<int>(i);
  }
}

bool Writer::start(std::string& why) {
  std::string prefix = options_.folder + "/" + (options_.rank >= 0 ? "rank" + std::to_string(options_.rank) : "proc");
  if (!options_.host.empty()) prefix += "-" + options_.host;
  if (!file_.open(prefix, static_cast<uint32_t>(getpid()))) {
    why = file_.path() + " cannot be made: " + std::strerror(errno);
    return false;
  }
  for (size_t i = 0; i < count_kinds(); i++) {
    std::vector<NamedType> columns;
    for (const Column& column : list_kinds()[i].columns) columns.push_back({column.name, column.type});
    file_.begin_table(static_cast<uint16_t>(i), list_kinds()[i].table, columns);
  }
  for (const TableOf& own : list_own_tables()) file_.begin_table(own.table, own.name, own.columns);
  file_.commit();
  // Signals are the program's: none is handled on a thread of ours.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "sightline-write");
  return true;
}

uint8_t* Writer::take_buffer() {
  std::lock_guard<std::mutex> guard(pool_lock_);
  if (!free_.empty()) {
    uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  if (allocated_ >= options_.most_buffers) return nullptr;
  auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, (options_.buffer_bytes + kBehind + 4095) & ~size_t{4095}));
  if (buffer) allocated_++;
  return buffer;
}

uint8_t* Writer::take_waste() {
  std::lock_guard<std::mutex> guard(pool_lock_);
  if (free_waste_.empty()) {
    auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, kWasteBytes));
    if (!buffer) return nullptr;
    waste_.push_back(buffer);
    return buffer;
  }
  uint8_t* buffer = free_waste_.back();
  free_waste_.pop_back();
  return buffer;
}

bool Writer::is_waste(const uint8_t* buffer) {
  std::lock_guard<std::mutex> guard(pool_lock_);
  return std::find(waste_.begin(), waste_.end(), buffer) != waste_.end();
}

uint64_t Writer::give_waste(uint8_t* buffer, size_t valid) {
  uint64_t count = 0;
  CUpti_Activity* record = nullptr;
  while (library_.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) count++;
  std::lock_guard<std::mutex> guard(pool_lock_);
  free_waste_.push_back(buffer);
  return count;
}

void Writer::give_buffer(uint8_t* buffer, size_t valid, std::shared_ptr<const Plans> plans) {
  Item item;
  item.what = What::buffer;
  item.buffer = buffer;
  item.valid = valid;
  item.plans = std::move(plans);
  push(std::move(item));
}

void Writer::add_rows(OwnTable table, std::vector<uint8_t> rows, uint32_t count, Fill fill) {
  Item item;
  item.what = What::rows;
  item.table = table;
  item.count = count;
  item.data = std::move(rows);
  item.fill = fill;
  push(std::move(item));
}

void Writer::add_blob(uint64_t key, const uint8_t* data, size_t size) {
  Item item;
  item.what = What::blob;
  item.key = key;
  item.data.assign(data, data + size);
  push(std::move(item));
}

void Writer::add_facts(const Facts& facts) {
  Item item;
  item.what = What::facts;
  item.facts = facts;
  push(std::move(item));
}

void Writer::push(Item item) {
  {
    std::lock_guard<std::mutex> guard(queue_lock_);
    const bool is_ours = item.what != What::buffer && item.what != What::end && item.what != What::facts;
    if (is_ours && queued_ + item.data.size() > kMostQueued) return;
    queued_ += item.data.size();
    queue_.push_back(std::move(item));
  }
  is_filled_.notify_one();
}

uint64_t thread_ns(pthread_t thread) {
  clockid_t clock;
  return pthread_getcpuclockid(thread, &clock) == 0 ? now_ns(clock) : 0;
}

uint64_t Writer::cpu_ns() { return thread_.joinable() ? thread_ns(thread_.native_handle()) : 0; }

uint64_t Writer::queued_bytes() {
  std::lock_guard<std::mutex> guard(queue_lock_);
  return queued_;
}

void Writer::run() {
  for (bool is_over = false; !is_over;) {
    Item item;
    {
      std::unique_lock<std::mutex> guard(queue_lock_);
      is_filled_.wait(guard, [this] { return !queue_.empty(); });
      item = std::move(queue_.front());
      queue_.pop_front();
      queued_ -= item.data.size();
    }
    is_over = item.what == What::end;
    write(item);
  }
}

void Writer::write(Item& item) {
  switch (item.what) {
    case What::buffer: {
      write_buffer(item.buffer, item.valid, item.plans.get());
      tell_failure();
      std::lock_guard<std::mutex> guard(pool_lock_);
      free_.push_back(item.buffer);
      return;
    }
    case What::rows: {
      if (item.fill) item.data = item.fill(file_.texts, item.data);
      file_.add_texts();
      file_.add_rows(item.table, item.data.data(), static_cast<uint32_t>(item.data.size()), item.count);
      break;
    }
    case What::blob: file_.add_blob(item.key, item.data.data(), item.data.size()); break;
    case What::facts: file_.add_facts(item.facts); break;
    case What::end: {
      Facts rows;
      for (size_t i = 0; i < count_kinds(); i++)
        rows.add(list_kinds()[i].table, static_cast<int64_t>(file_.rows_of(static_cast<uint16_t>(i))));
      item.facts.add("unknown_records", static_cast<int64_t>(unknown_records_));
      Facts unknown;
      for (const auto& [number, count] : unknown_kinds_)
        unknown.add(std::to_string(number), static_cast<int64_t>(count));
      item.facts.add_object("unknown_kinds", unknown);
      for (const TableOf& own : list_own_tables())
        rows.add(own.name, static_cast<int64_t>(file_.rows_of(own.table)));
      item.facts.add_object("rows", rows);
      file_.add_facts(item.facts);
      break;
    }
  }
  file_.commit();
  tell_failure();
}

// Once, to whoever started the program: it goes on, and its recording ends here.
void Writer::tell_failure() {
  if (file_.is_good() || has_told_) return;
  has_told_ = true;
  std::fprintf(stderr, "sightline: the recording of the GPU ends here: %s: %s\n", file_.path().c_str(),
               std::strerror(file_.error()));
}

void Writer::write_buffer(const uint8_t* buffer, size_t valid, const Plans* layouts) {
  const size_t read = layouts ? walk_layouts(buffer, valid, *layouts) : walk_structs(buffer, valid);
  if (read < valid) {
    Rows row;
    row.put(now_ns(CLOCK_REALTIME)).put(uint64_t{0}).put(static_cast<uint64_t>(valid - read));
    file_.add_rows(kDrops, row.data.data(), static_cast<uint32_t>(row.data.size()), 1);
  }
  file_.add_texts();  // before the rows that name them
  if (new_call_names_) {
    file_.add_rows(kCallNames, call_names_.data.data(), static_cast<uint32_t>(call_names_.data.size()), new_call_names_);
    call_names_.data.clear();
    new_call_names_ = 0;
  }
  for (size_t i = 0; i < parts_.size(); i++) {
    Part& part = parts_[i];
    file_.add_rows(static_cast<uint16_t>(i), part.rows.data(), static_cast<uint32_t>(part.rows.size()), part.count);
    part.rows.clear();
    part.count = 0;
  }
  file_.commit();
}

// How many bytes of the buffer could be read.
size_t Writer::walk_structs(const uint8_t* buffer, size_t valid) {
  CUpti_Activity* record = nullptr;
  CUptiResult result;
  while ((result = library_.cuptiActivityGetNextRecord(const_cast<uint8_t*>(buffer), valid, &record)) == CUPTI_SUCCESS) {
    const auto number = static_cast<uint32_t>(record->kind);
    const int kind = number < kind_of_.size() ? kind_of_[number] : -1;
    if (kind < 0) {
      unknown_records_++;
      if (unknown_kinds_.size() < 1000) unknown_kinds_[number]++;
      continue;
    }
    add_record(reinterpret_cast<const uint8_t*>(record), static_cast<size_t>(kind), structs_[static_cast<size_t>(kind)]);
  }
  if (result == CUPTI_ERROR_MAX_LIMIT_REACHED || record == nullptr) return result == CUPTI_ERROR_MAX_LIMIT_REACHED ? valid : 0;
  return static_cast<size_t>(reinterpret_cast<const uint8_t*>(record) - buffer);
}

// Records in user-defined layouts: each begins with its kind, and its layout says how long it is.
size_t Writer::walk_layouts(const uint8_t* buffer, size_t valid, const Plans& plans) {
  size_t at = 0;
  while (at + 4 <= valid) {
    uint32_t number;
    std::memcpy(&number, buffer + at, 4);
    const int kind = number < kind_of_.size() ? kind_of_[number] : -1;
    if (kind < 0) break;
    const Plan& plan = plans[static_cast<size_t>(kind)];
    if (plan.record_bytes == 0 || at + plan.record_bytes > valid) break;
    add_record(buffer + at, static_cast<size_t>(kind), plan);
    at += plan.record_bytes;
  }
  return at;
}

void Writer::add_record(const uint8_t* record, size_t kind, const Plan& plan) {
  Part& part = parts_[kind];
  const size_t start = part.rows.size();
  part.rows.resize(start + plan.row_bytes);
  uint8_t* row = part.rows.data() + start;
  for (const Step& step : plan.steps) {
    uint64_t value = 0;
    if (step.type == Type::text) {
      const char* pointer = nullptr;
      std::memcpy(&pointer, record + step.from, sizeof pointer);
      value = file_.texts.number(pointer);
      std::memcpy(row + step.to, &value, 4);
    } else {
      const uint32_t width = width_of(step.type);
      std::memcpy(&value, record + step.from, step.width < width ? step.width : width);
      std::memcpy(row + step.to, &value, width);
    }
  }
  part.count++;
  records_.fetch_add(1, std::memory_order_relaxed);
  if (plan.cbid >= 0) {
    uint32_t cbid;
    std::memcpy(&cbid, row + plan.cbid, 4);
    name_call(kind, cbid);
  }
}

void Writer::name_call(size_t kind, uint32_t cbid) {
  std::vector<bool>& named = named_calls_[kind];
  if (cbid < named.size() && named[cbid]) return;
  if (cbid >= 1u << 16) return;  // no such call: CUPTI counts them up from 1
  if (cbid >= named.size()) named.resize(cbid + 1u);
  named[cbid] = true;
  const bool is_driver = list_kinds()[kind].kinds[0] == CUPTI_ACTIVITY_KIND_DRIVER;
  const CUpti_CallbackDomain domain = is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
  const char* name = nullptr;
  if (library_.cuptiGetCallbackName(domain, cbid, &name) != CUPTI_SUCCESS) return;
  call_names_.put(static_cast<uint8_t>(domain)).put(cbid).put(file_.texts.number(name));
  new_call_names_++;
}

void Writer::finish(Facts last) {
  Item item;
  item.what = What::end;
  item.facts = std::move(last);
  push(std::move(item));
  if (thread_.joinable()) thread_.join();
  file_.close();
}

}  // namespace sightline::cupti
