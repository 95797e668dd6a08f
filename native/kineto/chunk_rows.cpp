#include "kineto/chunk_rows.h"

namespace sightline {

uint32_t Threads::number(int64_t pid, int64_t tid) {
    // Events of a thread mostly follow each other.
    if (last_ != 0 && all_[last_ - 1].first == pid && all_[last_ - 1].second == tid) return last_;
    const std::pair<int64_t, int64_t> key{pid, tid};
    const auto [at, is_new] = known_.emplace(key, static_cast<uint32_t>(all_.size() + 1));
    if (is_new) all_.push_back(key);
    return last_ = at->second;
}

ChunkRows::ChunkRows() {
    tables.reserve(kTables);
    for (size_t i = 0; i < kTables; ++i) tables.emplace_back(kWide[i], kCodes[i]);
}

}  // namespace sightline
