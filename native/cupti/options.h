// What `sightline run` asks of the library, by variables of the environment.
#pragma once

#include <cstdint>
#include <string>

namespace sightline::cupti {

enum class Sampling { none, continuous, serialized };

struct Options {
  std::string folder = ".";        // SIGHTLINE_CUPTI_FOLDER: where the recording goes
  std::string host;                // SIGHTLINE_CUPTI_HOST: letters that stand for the host
  uint32_t buffer_bytes = 2u << 20;  // SIGHTLINE_CUPTI_BUFFER_KIB
  uint32_t most_buffers = 64;      // SIGHTLINE_CUPTI_BUFFERS: with 2 MiB each 128 MiB at most
  uint32_t flush_ms = 1000;        // SIGHTLINE_CUPTI_FLUSH_MS: what a kill loses at most
  bool calls = true;               // SIGHTLINE_CUPTI_CALLS: runtime and driver calls
  bool whole_graphs = false;       // SIGHTLINE_CUPTI_GRAPH=graph: graphs as one, not node by node
  bool hardware_times = false;     // SIGHTLINE_CUPTI_HES=1: the hardware's own times, where it has them
  double budget_pct = 0;           // SIGHTLINE_CUPTI_BUDGET_PCT: 0 is no budget
  bool measure = false;            // SIGHTLINE_CUPTI_MEASURE: pauses, to measure what recording costs
  uint32_t on_ms = 200, off_ms = 1800;  // SIGHTLINE_CUPTI_ON_MS, _OFF_MS: windows and pauses
  uint32_t decide_ms = 1000;       // SIGHTLINE_CUPTI_DECIDE_MS: how often the cost is looked at
  Sampling sampling = Sampling::none;  // SIGHTLINE_CUPTI_PC: continuous or serialized
  uint32_t period = 0;             // SIGHTLINE_CUPTI_PC_PERIOD: log2 of cycles; 0 is CUPTI's choice
  uint32_t drain_ms = 200;         // SIGHTLINE_CUPTI_PC_DRAIN_MS: how often samples are fetched
  uint64_t most_cubin_bytes = 256u << 20;  // SIGHTLINE_CUPTI_CUBIN_MIB: of all cubins together
  int64_t rank = -1;               // as the launcher says
  int64_t world_size = -1;
  bool chosen = true;              // whether this rank is recorded: SIGHTLINE_CUPTI_RANKS, _EVERY
};

Options read_options();

}  // namespace sightline::cupti
