#include "kineto/tables.h"

#include <utility>

namespace sightline {

void Rows::append(PieceTable& piece, const std::string& folder) {
    for (size_t i = 0; i < wide.size(); ++i) {
        wide[i].append(piece.wide[i].values(), piece.rows, folder);
    }
    for (size_t i = 0; i < codes.size(); ++i) {
        codes[i].append(piece.codes[i].values(), piece.rows, folder);
    }
    tag.append(piece.tag.values(), piece.rows, folder);
    rows += piece.rows;
}

void Rows::finish() {
    for (auto& column : wide) column.finish();
    for (auto& column : codes) column.finish();
    tag.finish();
}

void Rows::forget() const {
    for (const auto& column : wide) column.forget();
    for (const auto& column : codes) column.forget();
    tag.forget();
}

Tables::Tables(std::string folder) : rows(kTables), folder_(std::move(folder)) {
    for (size_t i = 0; i < kTables; ++i) {
        rows[i].wide.resize(kWide[i]);
        rows[i].codes.resize(kCodes[i]);
    }
}

void Tables::append(ChunkRows& piece) {
    // From the piece's numbers for texts and threads to those of the whole.
    std::vector<uint32_t> text_codes(piece.texts.size() + 1, 0);
    for (uint32_t code = 1; code <= piece.texts.size(); ++code) {
        text_codes[code] = texts.intern(piece.texts.text(code));
    }
    std::vector<uint32_t> thread_codes(1, 0);
    for (const auto& [pid, tid] : piece.threads.all()) {
        thread_codes.push_back(threads.number(pid, tid));
    }
    for (size_t id = 0; id < kTables; ++id) {
        PieceTable& table = piece.tables[id];
        for (size_t column = 0; column < table.codes.size(); ++column) {
            const bool is_thread = column == 0 && (id == kHost || id == kDevice || id == kFlows);
            const std::vector<uint32_t>& codes = is_thread ? thread_codes : text_codes;
            for (uint32_t& code : table.codes[column].values()) code = codes[code];
        }
    }
    // Collectives name the row of their owner by its place in the piece.
    PieceTable& collectives = piece.tables[kCollectives];
    auto& owners = collectives.wide[collective::row].values();
    for (size_t i = 0; i < collectives.rows; ++i) {
        const bool by_host = collectives.tag.values()[i] == collective::by_host;
        owners[i] = pack(unpack(owners[i]) +
                         static_cast<int64_t>(rows[by_host ? kHost : kDevice].rows));
    }
    pair_up(piece, text_codes);
    for (size_t id = 0; id < kTables; ++id) rows[id].append(piece.tables[id], folder_);

    for (const Naming& n : piece.namings) {
        if (n.of_thread) {
            thread_names[{n.pid, n.tid}] = text_codes[n.name];
        } else {
            process_names[n.pid] = text_codes[n.name];
        }
    }
    for (const auto& [code, count] : piece.unknown) {
        const auto [at, is_new] = unknown_at_.emplace(text_codes[code], unknown.size());
        if (is_new) unknown.emplace_back(text_codes[code], 0);
        unknown[at->second].second += count;
    }
    events += piece.events;
    not_events += piece.not_events;
    negative_durations += piece.negative_durations;
    has_mtia |= piece.has_mtia;
    has_hpu |= piece.has_hpu;
    if (piece.has_span) {
        has_span = true;
        span_start = piece.span_start;
        span_end = piece.span_end;
    }
}

// An end closes the innermost open range, or, where that has another name, the innermost of its own
// name: ranges of tasks that switch on one thread cross.
void Tables::pair_up(const ChunkRows& piece, const std::vector<uint32_t>& text_codes) {
    constexpr size_t kDeepest = 64;  // how far below the innermost its own name is looked for
    for (const Half& half : piece.halves) {
        std::vector<Begin>& open = open_[{half.pid, half.tid}];
        if (half.is_begin) {
            open.push_back({rows[kHost].rows + half.row, half.time, text_codes[half.name]});
            ++unmatched_begins;
        } else if (open.empty()) {
            ++unmatched_begins;
        } else {
            const uint32_t name = text_codes[half.name];
            const auto last = open.end() - 1;
            auto own = last;
            if (name != 0) {
                for (size_t depth = 0; own->name != name && depth < kDeepest; ++depth, --own) {
                    if (own == open.begin()) break;
                }
                if (own->name != name) own = last;
            }
            const Begin begin = *own;
            open.erase(own);
            --unmatched_begins;
            if (begin.time == kNull || half.time == kNull) continue;
            if (half.time < begin.time) {
                ++negative_durations;
            } else {
                closed_.push_back({begin.row, half.time});
            }
        }
    }
}

void Tables::finish() {
    for (Rows& table : rows) table.finish();
    Rows& hosts = rows[kHost];
    // An open row has an end only if it was closed, so those without one are left out later. A
    // trace of begins and ends only may have no end column at all.
    if (!closed_.empty() && hosts.wide[host::end].data() == nullptr) {
        const std::vector<int64_t> none(hosts.rows, 0);
        hosts.wide[host::end] = Column<int64_t>();
        hosts.wide[host::end].append(none, hosts.rows, folder_);
        hosts.wide[host::end].finish();
    }
    for (const Begin& pair : closed_) {
        hosts.wide[host::end].data()[pair.row] = pack(pair.time);
        hosts.tag.data()[pair.row] &= static_cast<uint8_t>(~kOpen);
    }
    closed_.clear();
}

}  // namespace sightline
