// A function to measure the cost of a probe on: `sightline probe` probes it in its own process.
#pragma once

#include <cstdint>

namespace sightline {

// Where it begins in memory, or 0 where its first instruction is not known.
std::uint64_t find_probe_target() noexcept;

// How long that many calls of it take, in nanoseconds.
std::int64_t time_probe_target(std::int64_t calls) noexcept;

}  // namespace sightline
