// One recording of one process: who is subscribed, what is enabled, and the thread that paces it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cupti/library.h"
#include "cupti/options.h"
#include "cupti/sampler.h"
#include "cupti/throttle.h"
#include "cupti/writer.h"

namespace sightline::cupti {

class Recorder {
 public:
  explicit Recorder(const Options& options);

  // Subscribes and enables. Where CUPTI refuses, a file says why, and nothing is recorded.
  void start();
  // Flushes, writes what is left, and ends the threads. Once; later calls do nothing.
  void stop();
  // In the child of a fork: nothing of ours runs there, and the file is the parent's.
  void abandon();

  Writer& writer() { return writer_; }
  bool is_recording() const { return state_.load(std::memory_order_acquire) == State::recording; }

  // CUPTI's callbacks.
  void request_buffer(uint8_t** buffer, size_t* size, size_t* most);
  void complete_buffer(uint8_t* buffer, size_t valid, std::shared_ptr<const Plans> plans);
  void on_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);

 private:
  enum class State { idle, recording, stopped, forked };

  bool subscribe(std::string& why);
  bool subscribe_layouts(std::string& why);
  void set_up_callbacks();
  void enable_kinds();
  std::string ask_for_hardware_times();
  CUptiResult enable(size_t kind);
  CUptiResult enable_kind(size_t kind);
  void leave_out_queries(CUpti_ActivityKind kind);
  void disable(size_t kind);
  bool is_wanted(size_t kind) const;
  void apply();  // enables and disables kinds as the level and the window ask
  void count_launches();
  void start_windows();
  void close_window();
  void pace_windows(uint64_t now);
  void pace_budget(uint64_t now);
  void pace();
  void note_clocks();
  void note_drops();
  void add_drops(uint64_t count);
  Facts describe() const;
  void refuse(const std::string& kind, const std::string& why, const std::string& other);

  const Options options_;
  Library library_;
  Writer writer_;
  std::unique_ptr<Sampler> sampler_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool has_layouts_ = false;  // the v2 interface: several subscribers, user-defined records
  std::string other_;         // who else is subscribed
  std::string hardware_times_;  // whether the hardware's own times are taken
  std::vector<std::string> enabled_, refused_;
  std::vector<bool> can_, is_enabled_;  // of each kind
  std::atomic<State> state_{State::idle};
  std::atomic<uint64_t> dropped_{0}, refused_buffers_{0}, own_ns_{0}, launches_{0};
  std::atomic<uint64_t> once_ns_{0};  // of own_ns_, what contexts and modules take once

  // Of the pacing thread alone, once it runs.
  struct Counts {
    uint64_t cupti = 0, wall = 0, launches = 0, records = 0, own = 0, once = 0, cpu = 0;
  };
  Counts count_now();
  Throttle throttle_;
  std::unique_ptr<Windows> windows_;
  int level_ = kEverything;
  bool is_on_ = true, is_counting_ = false;
  Counts opened_, decided_;  // at the start of the window, and of the last second
  uint64_t window_ends_ = 0;

  std::mutex pace_lock_;
  std::condition_variable is_over_;
  bool over_ = false;
  std::thread pacer_;
};

}  // namespace sightline::cupti
