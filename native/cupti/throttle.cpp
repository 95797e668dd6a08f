#include "cupti/throttle.h"

namespace sightline::cupti {
namespace {
constexpr int kCalmSeconds = 10;
}

int Throttle::decide(const Cost& last) {
  const double pct = last.pct();
  if (pct > budget_pct_) {
    calm_ = 0;
    if (level_ < kOnlyWindows) level_++;
  } else if (pct < budget_pct_ / 4) {
    if (++calm_ >= kCalmSeconds && level_ > kEverything) {
      level_--;
      calm_ = 0;
    }
  } else {
    calm_ = 0;
  }
  return level_;
}

Windows::Next Windows::next() {
  bool is_on;
  if (has_second_) {
    is_on = second_is_on_;
  } else {
    is_on = draw() >> 63;
    second_is_on_ = !is_on;
  }
  has_second_ = !has_second_;
  const uint64_t mean = is_on ? on_ns_ : off_ns_;
  return {is_on, mean / 2 + draw() % (mean + 1)};  // between a half and one and a half
}

uint64_t Windows::draw() {
  // xorshift64* (Vigna 2016): no state that others share.
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return state_ * 2685821657736338717ull;
}

}  // namespace sightline::cupti
