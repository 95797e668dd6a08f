#include "cupti/options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace sightline::cupti {
namespace {

const char* text_of(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

// A number from the environment within bounds, or `otherwise`.
int64_t number_of(const char* name, int64_t least, int64_t most, int64_t otherwise) {
  const char* text = text_of(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (errno || *end || value < least || value > most) return otherwise;
  return value;
}

// The launchers' variables in the order of sightline/record/inline/rank.py: the innermost one first.
void find_rank(Options& options) {
  struct Launcher {
    const char* rank;
    const char* size;
    const char* needs;
  };
  static constexpr Launcher launchers[] = {
      {"RANK", "WORLD_SIZE", nullptr},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", nullptr},
      {"PMI_RANK", "PMI_SIZE", nullptr},
      {"PMIX_RANK", "PMIX_SIZE", nullptr},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"},
  };
  for (const Launcher& launcher : launchers) {
    const int64_t rank = number_of(launcher.rank, 0, 1 << 30, -1);
    if (rank < 0 || (launcher.needs && number_of(launcher.needs, 0, 1 << 30, -1) < 0)) continue;
    options.rank = rank;
    options.world_size = number_of(launcher.size, 1, 1 << 30, -1);
    return;
  }
}

bool is_listed(const char* list, int64_t rank) {
  while (*list) {
    char* end = nullptr;
    if (std::strtoll(list, &end, 10) == rank && end != list) return true;
    list = end == list ? list + 1 : end;
    if (*list == ',') list++;
  }
  return false;
}

}  // namespace

Options read_options() {
  Options options;
  if (const char* folder = text_of("SIGHTLINE_CUPTI_FOLDER")) options.folder = folder;
  if (const char* host = text_of("SIGHTLINE_CUPTI_HOST")) options.host = host;
  options.buffer_bytes = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_BUFFER_KIB", 8, 16 << 10, 2048)) << 10;
  options.most_buffers = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_BUFFERS", 2, 4096, 64));
  options.flush_ms = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_FLUSH_MS", 10, 3600000, 1000));
  options.calls = number_of("SIGHTLINE_CUPTI_CALLS", 0, 1, 1) != 0;
  options.hardware_times = number_of("SIGHTLINE_CUPTI_HES", 0, 1, 0) != 0;
  options.measure = number_of("SIGHTLINE_CUPTI_MEASURE", 0, 1, 0) != 0;
  if (const char* graph = text_of("SIGHTLINE_CUPTI_GRAPH")) options.whole_graphs = std::strcmp(graph, "graph") == 0;
  // Where recording is measured, windows and pauses are as long, so that either is met as often.
  options.on_ms = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_ON_MS", 1, 60000, 200));
  options.off_ms = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_OFF_MS", 1, 600000, options.measure ? 200 : 1800));
  options.decide_ms = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_DECIDE_MS", 10, 60000, 1000));
  if (const char* budget = text_of("SIGHTLINE_CUPTI_BUDGET_PCT")) {
    const double value = std::strtod(budget, nullptr);
    if (value > 0 && value <= 100) options.budget_pct = value;
  }
  if (const char* mode = text_of("SIGHTLINE_CUPTI_PC")) {
    if (std::strcmp(mode, "continuous") == 0) options.sampling = Sampling::continuous;
    if (std::strcmp(mode, "serialized") == 0) options.sampling = Sampling::serialized;
  }
  // 5 to 31: cupti_pcsampling.h, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD.
  options.period = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_PC_PERIOD", 5, 31, 0));
  options.drain_ms = static_cast<uint32_t>(number_of("SIGHTLINE_CUPTI_PC_DRAIN_MS", 10, 60000, 200));
  options.most_cubin_bytes = static_cast<uint64_t>(number_of("SIGHTLINE_CUPTI_CUBIN_MIB", 0, 1 << 20, 256)) << 20;
  find_rank(options);
  const int64_t every = number_of("SIGHTLINE_CUPTI_EVERY", 1, 1 << 30, 1);
  const char* ranks = text_of("SIGHTLINE_CUPTI_RANKS");
  if (options.rank >= 0)
    options.chosen = (ranks == nullptr || is_listed(ranks, options.rank)) && options.rank % every == 0;
  return options;
}

}  // namespace sightline::cupti
