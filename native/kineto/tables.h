// The rows of a whole trace, in order of appearance, and what is counted on the way.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kineto/chunk_rows.h"
#include "columns/column.h"

namespace sightline {

struct Rows {
    size_t rows = 0;
    std::vector<Column<int64_t>> wide;
    std::vector<Column<uint32_t>> codes;
    Column<uint8_t> tag;

    void append(PieceTable& piece, const std::string& folder);
    void finish();
    void forget() const;

    int64_t value(size_t column, size_t row) const { return unpack(wide[column].at(row)); }
};

class Tables {
public:
    explicit Tables(std::string folder);

    // Adds the rows of the piece that follows; pieces must come in order.
    void append(ChunkRows& piece);

    // No more pieces will come.
    void finish();

    std::vector<Rows> rows;
    Dictionary texts;
    Threads threads;
    std::map<int64_t, uint32_t> process_names;
    std::map<std::pair<int64_t, int64_t>, uint32_t> thread_names;
    std::vector<std::pair<uint32_t, uint64_t>> unknown;
    uint64_t events = 0;
    uint64_t not_events = 0;
    uint64_t negative_durations = 0;
    uint64_t unmatched_begins = 0;
    bool has_mtia = false, has_hpu = false;  // some category is of such a device
    bool has_span = false;
    int64_t span_start = 0;
    int64_t span_end = 0;

private:
    // A begin event: its row in the host table, and its start or, once it is closed, its end.
    struct Begin {
        size_t row;
        int64_t time;
        uint32_t name;
    };

    void pair_up(const ChunkRows& piece, const std::vector<uint32_t>& text_codes);

    std::string folder_;
    std::map<std::pair<int64_t, int64_t>, std::vector<Begin>> open_;
    std::vector<Begin> closed_;
    std::unordered_map<uint32_t, size_t> unknown_at_;
};

}  // namespace sightline
