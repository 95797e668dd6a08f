// The thread that writes: buffers of activity records and rows come in by a queue, the file goes out.
// Buffers are bounded; where all are in use, CUPTI is given none and counts what it drops.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cupti/file.h"
#include "cupti/kinds.h"
#include "cupti/library.h"
#include "cupti/options.h"
#include "cupti/tables.h"

namespace sightline::cupti {

// How the records of one buffer become rows: a plan for each kind, by its number in list_kinds.
using Plans = std::vector<Plan>;

// A buffer of records that are let go is as small as CUPTI's documentation allows for (1 KiB and more).
constexpr size_t kWasteBytes = 64u << 10;

uint64_t thread_ns(pthread_t thread);  // of the CPU that a thread used
uint64_t now_ns(int clock);  // CLOCK_MONOTONIC, CLOCK_REALTIME, ...

class Writer {
 public:
  Writer(const Library& library, const Options& options);

  bool start(std::string& why);  // makes the file and the thread
  File& file() { return file_; }

  // A buffer for CUPTI, or null where all are in use.
  uint8_t* take_buffer();
  // One whose records are let go: for a CUPTI that must not be refused one.
  uint8_t* take_waste();
  bool is_waste(const uint8_t* buffer);
  // How many records it holds, and takes it back.
  uint64_t give_waste(uint8_t* buffer, size_t valid);
  // A completed buffer. `plans` is null for structs of the v1 interface.
  void give_buffer(uint8_t* buffer, size_t valid, std::shared_ptr<const Plans> plans);

  // Rows of an own table. `fill` runs on the writer's thread, which alone numbers texts.
  using Fill = std::vector<uint8_t> (*)(Texts&, const std::vector<uint8_t>&);
  void add_rows(OwnTable table, std::vector<uint8_t> rows, uint32_t count, Fill fill = nullptr);
  void add_blob(uint64_t key, const uint8_t* data, size_t size);
  void add_facts(const Facts& facts);

  // Writes all that is queued, then `last`, and ends the thread.
  void finish(Facts last);
  void abandon() { file_.abandon(); }

  uint64_t records() const { return records_.load(std::memory_order_relaxed); }
  uint64_t queued_bytes();
  uint64_t cpu_ns();  // of the writer's thread so far

 private:
  enum class What { buffer, rows, blob, facts, end };
  struct Item {
    What what = What::end;
    uint8_t* buffer = nullptr;
    size_t valid = 0;
    std::shared_ptr<const Plans> plans;
    OwnTable table = kClocks;
    uint32_t count = 0;
    Fill fill = nullptr;
    std::vector<uint8_t> data;
    uint64_t key = 0;
    Facts facts;
  };

  void push(Item item);
  void run();
  void write(Item& item);
  void tell_failure();
  void write_buffer(const uint8_t* buffer, size_t valid, const Plans* layouts);
  size_t walk_structs(const uint8_t* buffer, size_t valid);
  size_t walk_layouts(const uint8_t* buffer, size_t valid, const Plans& plans);
  void add_record(const uint8_t* record, size_t kind, const Plan& plan);
  void name_call(size_t kind, uint32_t cbid);

  const Library& library_;
  const Options options_;
  File file_;
  Plans structs_;
  std::vector<int> kind_of_;  // number in list_kinds of a CUpti_ActivityKind, -1 for others

  std::mutex pool_lock_;
  std::vector<uint8_t*> free_;
  uint32_t allocated_ = 0;
  std::vector<uint8_t*> waste_, free_waste_;  // as many as CUPTI holds at once, and no more

  std::mutex queue_lock_;
  std::condition_variable is_filled_;
  std::deque<Item> queue_;
  uint64_t queued_ = 0;

  // Of the writer's thread alone.
  struct Part {
    std::vector<uint8_t> rows;
    uint32_t count = 0;
  };
  std::vector<Part> parts_;
  std::vector<std::vector<bool>> named_calls_;
  Rows call_names_;
  uint32_t new_call_names_ = 0;
  bool has_told_ = false;
  uint64_t unknown_records_ = 0;
  std::map<uint32_t, uint64_t> unknown_kinds_;  // how many of them, by CUpti_ActivityKind
  std::atomic<uint64_t> records_{0};
  std::thread thread_;
};

}  // namespace sightline::cupti
