// How much is recorded, so that recording keeps within a budget: decided from what it cost so far.
#pragma once

#include <cstdint>

namespace sightline::cupti {

// Each level records what the one before does, and less: API calls go first, then the single nodes
// of graphs, then all but short windows.
enum Level : int { kEverything = 0, kNoCalls = 1, kWholeGraphs = 2, kOnlyWindows = 3 };

// What recording took of a stretch of time: of the program's threads in our callbacks, and of our
// own threads.
struct Cost {
  uint64_t wall_ns = 0;
  uint64_t own_ns = 0;
  uint64_t cpu_ns = 0;
  double pct() const {
    return wall_ns ? 100.0 * static_cast<double>(own_ns + cpu_ns) / static_cast<double>(wall_ns) : 0.0;
  }
};

class Throttle {
 public:
  explicit Throttle(double budget_pct) : budget_pct_(budget_pct) {}

  // The level from now on, after a second that cost this much. Up at once; down only after ten
  // seconds at under a quarter of the budget, since what a level saves is more than half of its
  // cost (two calls to a kernel are two of three records), and it would go up again.
  int decide(const Cost& last);
  int level() const { return level_; }

 private:
  double budget_pct_;
  int level_ = kEverything;
  int calm_ = 0;
};

// Windows in which all is recorded, and pauses: in each period one of either, in random order and
// with random lengths around their mean, so that nothing that a program does in a fixed rhythm is
// always met, or never.
class Windows {
 public:
  Windows(uint64_t on_ns, uint64_t off_ns, uint64_t seed) : on_ns_(on_ns), off_ns_(off_ns), state_(seed | 1) {}

  struct Next {
    bool is_on;
    uint64_t length_ns;
  };
  Next next();

 private:
  uint64_t draw();
  uint64_t on_ns_, off_ns_, state_;
  bool has_second_ = false, second_is_on_ = false;
};

}  // namespace sightline::cupti
