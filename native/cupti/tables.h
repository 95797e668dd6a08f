// Tables of the recording that are no kind of CUPTI's: what the library notes itself.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cupti/file.h"

namespace sightline::cupti {

// Numbers behind those of CUPTI's kinds (list_kinds).
enum OwnTable : uint16_t {
  kCallNames = 64,
  kClocks,
  kDrops,
  kWindows,
  kStallReasons,
  kSamples,
  kSampleTotals,
  kRanges,
};

struct TableOf {
  OwnTable table;
  const char* name;
  std::vector<NamedType> columns;
};

const std::vector<TableOf>& list_own_tables();

// One packed row, or several, column by column.
class Rows {
 public:
  template <typename T>
  Rows& put(T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    data.insert(data.end(), bytes, bytes + sizeof value);
    return *this;
  }
  std::vector<uint8_t> data;
};

}  // namespace sightline::cupti
