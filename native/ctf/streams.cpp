#include "ctf/streams.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "ctf/bits.h"

namespace sightline::ctf {

namespace {

constexpr uint64_t kMagicNumber = 0xC1FC1FC1;  // CTF 1.8.3, 5.1; CTF 2.0, 6.2
constexpr size_t kNoEvent = SIZE_MAX;
constexpr uint64_t kLowIds = 64;  // that are found without a hash: most streams have no others
constexpr uint64_t kMostElements = 1 << 26;  // of one array
constexpr uint64_t kMostText = 1 << 28;      // bytes of one text
constexpr uint64_t kFewElements = 1 << 16;   // an event may have so many that take no bit
constexpr size_t kMostProblems = 1000;       // that are listed one by one

enum PacketColumn : uint8_t {
    pFile, pByte, pTotal, pContent, pStreamClass, pStream, pBegin, pEnd, pDiscarded, pSequence,
    pEvents, pDamage, pColumns,
};
const char* const kPacketColumns[] = {"file", "byte", "total_bits", "content_bits", "stream_class",
                                      "stream", "begin", "end", "discarded", "sequence", "events",
                                      "damage"};

std::shared_ptr<BatchColumn> wide_column(const char* name, std::vector<uint64_t> values,
                                         const std::vector<size_t>& nulls) {
    auto column = std::make_shared<BatchColumn>();
    column->name = name;
    column->format = "L";
    for (const size_t row : nulls) column->set_null(row, values.size());
    auto kept = std::make_shared<std::vector<uint64_t>>(std::move(values));
    column->data = kept->data();
    column->values = kept;
    return column;
}

float float_of(uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// IEEE 754 binary16 as binary32.
float widen(uint16_t half) {
    const uint32_t sign = uint32_t{half} >> 15, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) {
        const float value = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return float_of(sign << 31 | wide << 23 | fraction << 13);
}

}  // namespace

Streams::Streams(const uint8_t* plan, size_t size, std::vector<std::string> paths)
    : plan_(read_plan(plan, size)), paths_(std::move(paths)) {
    tables_.resize(plan_.is_root.size());
    for (size_t i = 0; i < plan_.columns.size(); ++i) {
        columns_.emplace_back(plan_.columns[i].kind);
        tables_[static_cast<size_t>(plan_.columns[i].table)].columns.push_back(i);
    }
    for (const Option& option : plan_.options) {
        for (int32_t i = option.start; i < option.start + option.size; ++i) {
            const int32_t column = plan_.code[static_cast<size_t>(i)].column;
            if (column == kNone) continue;
            const ColumnPlan& at = plan_.columns[static_cast<size_t>(column)];
            tables_[static_cast<size_t>(at.table)].is_ragged = true;
        }
    }
    for (const Instruction& one : plan_.code) {
        if (one.op == Op::select && one.column != kNone && one.may_miss != 0) {
            const ColumnPlan& at = plan_.columns[static_cast<size_t>(one.column)];
            tables_[static_cast<size_t>(at.table)].is_ragged = true;
        }
    }
    event_by_id_.resize(plan_.stream_classes.size());
    event_by_low_id_.assign(plan_.stream_classes.size(), std::vector<size_t>(kLowIds, kNoEvent));
    only_event_.assign(plan_.stream_classes.size(), kNoEvent);
    for (size_t i = 0; i < plan_.stream_classes.size(); ++i) {
        stream_by_id_.emplace(plan_.stream_classes[i].id, i);
    }
    for (size_t i = 0; i < plan_.event_classes.size(); ++i) {
        const EventClass& event = plan_.event_classes[i];
        const auto stream = static_cast<size_t>(event.stream_class);
        event_by_id_[stream].emplace(event.id, i);
        if (event.id < kLowIds) event_by_low_id_[stream][static_cast<size_t>(event.id)] = i;
        only_event_[stream] = event_by_id_[stream].size() == 1 ? i : kNoEvent;
    }
    registers_.resize(static_cast<size_t>(plan_.registers));
    is_set_.resize(registers_.size());
    packet_rows_.resize(pColumns);
    packet_nulls_.resize(pColumns);
}

bool Streams::fail(Damage damage) {
    damage_ = damage;
    return false;
}

// Whether so many bits are left to read, and then they are in the window.
inline bool Streams::reach(uint64_t bits) {
    if (bits > end_ - at_) return fail(Damage::cut);
    if ((at_ + bits + 7) / 8 <= seen_to_) return true;
    return refill((at_ % 8 + bits + 7) / 8);
}

bool Streams::refill(uint64_t wanted) {
    size_t got = 0;
    const uint64_t from = at_ / 8;
    bytes_ = window_.see(packet_start_ + from, static_cast<size_t>(wanted), got);
    seen_from_ = from;
    seen_to_ = from + got;
    ready_ = std::min(end_, 8 * seen_to_);
    return got >= wanted ? true : fail(Damage::cut);
}

bool Streams::align(uint64_t to) {
    const uint64_t next = (at_ + to - 1) & ~(to - 1);
    if (next > end_) return fail(Damage::cut);
    at_ = next;
    return true;
}

inline void Streams::note(const Instruction& one, uint64_t value) {
    if (one.store != kNone) {
        registers_[static_cast<size_t>(one.store)] = value;
        is_set_[static_cast<size_t>(one.store)] = 1;
    }
    if (one.sets_clock != 0 && one.is_end == 0) {
        // Fewer than 64 bits are the lowest ones, which may have wrapped once (CTF 1.8.3, 8;
        // CTF 2.0, 6.3, "clock value update procedure").
        const auto bits = static_cast<unsigned>(one.size);
        if (bits < 64 && bits > 0) {
            const uint64_t mask = (uint64_t{1} << bits) - 1;
            if ((value & mask) < (clock_ & mask)) clock_ += mask + 1;
            value = (clock_ & ~mask) | (value & mask);
        }
        clock_ = value;
    }
}

// Most integers are whole bytes in the window, little-endian.
inline bool Streams::read_plain_integer(const Instruction& one, uint64_t& value) {
    const auto alignment = static_cast<uint64_t>(one.alignment);
    const auto size = static_cast<unsigned>(one.size);
    const uint64_t at = (at_ + alignment - 1) & ~(alignment - 1);
    if (at % 8 != 0 || at + size > ready_) return read_integer(one, value);
    value = read_plain(bytes_ + (at / 8 - seen_from_), size);
    if (one.is_signed != 0) value = extend_sign(value, size);
    last_big_ = 0;
    at_ = at + size;
    return true;
}

bool Streams::read_integer(const Instruction& one, uint64_t& value) {
    const auto size = static_cast<unsigned>(one.size);
    if (one.alignment > 1 && !align(static_cast<uint64_t>(one.alignment))) return false;
    if (!reach(size)) return false;
    const uint64_t from = at_ - 8 * seen_from_;
    if (at_ % 8 != 0 && last_big_ >= 0 && last_big_ != one.is_big) return fail(Damage::byte_order);
    last_big_ = one.is_big;
    value = one.is_big != 0 ? read_big(bytes_, from, size) : read_little(bytes_, from, size);
    if (one.is_reversed != 0) value = reverse_bits(value, size);
    if (one.is_signed != 0) value = extend_sign(value, size);
    at_ += size;
    return true;
}

bool Streams::read_variable(const Instruction& one, uint64_t& value) {
    if (!align(8)) return false;
    unsigned shift = 0;
    uint64_t byte = 0;
    value = 0;
    do {
        if (!reach(8)) return false;
        byte = bytes_[at_ / 8 - seen_from_];
        at_ += 8;
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
        // Ten bytes hold 64 bits; longer ones are refused as babeltrace does.
        if (shift > 70) return fail(Damage::size);
    } while ((byte & 0x80) != 0);
    if (one.is_signed != 0) value = extend_sign(value, shift);
    return true;
}

bool Streams::read_real(const Instruction& one) {
    Instruction raw = one;
    raw.is_signed = 0;
    uint64_t bits = 0;
    if (!read_integer(raw, bits)) return false;
    if (one.size == 16) {
        const float wide = widen(static_cast<uint16_t>(bits));
        bits = 0;
        std::memcpy(&bits, &wide, sizeof wide);  // its lowest four bytes are what is kept
    }
    if (one.column != kNone) columns_[static_cast<size_t>(one.column)].append(bits);
    return true;
}

bool Streams::read_bytes(const Instruction& one) {
    if (!align(8)) return false;
    uint64_t count = static_cast<uint64_t>(one.count);
    if (one.from != kNone) {
        if (is_set_[static_cast<size_t>(one.from)] == 0) return fail(Damage::option);
        count = registers_[static_cast<size_t>(one.from)];
    }
    const bool ends = one.op == Op::string;  // at its NUL
    if (!ends && count > (end_ - at_) / 8) return fail(Damage::cut);
    if (!ends && count > kMostText) return fail(Damage::too_many);
    long_text_.clear();
    std::string_view text;
    // Most lie in the window as a whole; the others are put together.
    for (bool done = false; !done;) {
        const uint64_t have = long_text_.size();
        if (!ends && have == count) break;
        if (!reach(8)) return false;
        const auto* from = reinterpret_cast<const char*>(bytes_) + (at_ / 8 - seen_from_);
        auto seen = static_cast<size_t>(std::min(seen_to_ - at_ / 8, (end_ - at_) / 8));
        if (!ends) seen = static_cast<size_t>(std::min<uint64_t>(seen, count - have));
        const void* nul = ends ? std::memchr(from, 0, seen) : nullptr;
        size_t used = seen;
        if (nul != nullptr) used = static_cast<size_t>(static_cast<const char*>(nul) - from);
        done = nul != nullptr || (!ends && have + used == count);
        at_ += 8 * (used + (nul != nullptr ? 1 : 0));
        if (done && have == 0) {
            text = {from, used};
        } else {
            long_text_.append(from, used);
            text = long_text_;
            if (long_text_.size() > kMostText) return fail(Damage::too_many);
        }
    }
    if (one.op == Op::text) text = text.substr(0, text.find('\0'));
    if (one.is_uuid != 0 && plan_.has_uuid &&
        (text.size() != 16 || std::memcmp(text.data(), plan_.uuid.data(), 16) != 0)) {
        ++foreign_;  // babeltrace reads them, too: some tracers write another one
    }
    if (one.column != kNone) columns_[static_cast<size_t>(one.column)].append_text(text);
    return true;
}

bool Streams::repeat(const Instruction& one, int32_t at) {
    uint64_t count = static_cast<uint64_t>(one.count);
    if (one.from != kNone) {
        if (is_set_[static_cast<size_t>(one.from)] == 0) return fail(Damage::option);
        count = registers_[static_cast<size_t>(one.from)];
    }
    if (!align(static_cast<uint64_t>(one.alignment))) return false;
    elements_ += count;
    if (count > kMostElements || elements_ > end_ - at_ + kFewElements) {
        return fail(count > end_ - at_ ? Damage::cut : Damage::too_many);
    }
    if (one.column != kNone) columns_[static_cast<size_t>(one.column)].append(count);
    for (uint64_t i = 0; i < count; ++i) {
        if (!run_code(at + 1, at + 1 + one.body, one.table)) return false;
        end_row(one.table);
    }
    return true;
}

bool Streams::select(const Instruction& one, int32_t table) {
    if (is_set_[static_cast<size_t>(one.from)] == 0) return fail(Damage::option);
    const uint64_t value = registers_[static_cast<size_t>(one.from)];
    for (int64_t i = 0; i < one.count; ++i) {
        const Option& option = plan_.options[static_cast<size_t>(one.first + i)];
        for (int32_t j = option.ranges; j < option.ranges + option.count; ++j) {
            const Range& range = plan_.ranges[static_cast<size_t>(j)];
            const bool fits = range.is_signed
                                  ? static_cast<int64_t>(value) >= range.lowest &&
                                        static_cast<int64_t>(value) <= range.highest
                                  : value >= static_cast<uint64_t>(range.lowest) &&
                                        value <= static_cast<uint64_t>(range.highest);
            if (!fits) continue;
            if (one.column != kNone) {
                columns_[static_cast<size_t>(one.column)].append(static_cast<uint64_t>(i));
            }
            return run_code(option.start, option.start + option.size, table);
        }
    }
    return one.may_miss != 0 ? true : fail(Damage::option);
}

bool Streams::run_code(int32_t at, int32_t end, int32_t table) {
    while (at < end) {
        const Instruction& one = plan_.code[static_cast<size_t>(at)];
        uint64_t value = 0;
        switch (one.op) {
            case Op::integer:
                if (!(one.is_plain != 0 ? read_plain_integer(one, value) : read_integer(one, value))) {
                    return false;
                }
                if (one.column != kNone) columns_[static_cast<size_t>(one.column)].append(value);
                note(one, value);
                break;
            case Op::variable:
                if (!read_variable(one, value)) return false;
                if (one.column != kNone) columns_[static_cast<size_t>(one.column)].append(value);
                note(one, value);
                break;
            case Op::real:
                if (!read_real(one)) return false;
                break;
            case Op::string:
            case Op::text:
            case Op::blob:
                if (!read_bytes(one)) return false;
                break;
            case Op::align:
                if (!align(static_cast<uint64_t>(one.size))) return false;
                break;
            case Op::repeat:
                if (!repeat(one, at)) return false;
                break;
            case Op::select:
                if (!select(one, table)) return false;
                break;
        }
        at += 1 + one.body;
    }
    return true;
}

bool Streams::run(const Program& program, int32_t table) {
    return run_code(program.start, program.start + program.size, table);
}

void Streams::end_row(int32_t place) {
    Table& table = tables_[static_cast<size_t>(place)];
    ++table.rows;
    if (!table.is_ragged) return;
    for (const size_t column : table.columns) {
        if (columns_[column].rows() < table.rows) columns_[column].append_null();
    }
}

void Streams::keep(int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; ++i) {
        Table& table = tables_[static_cast<size_t>(i)];
        table.kept = table.rows;
    }
}

void Streams::roll_back(int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; ++i) {
        Table& table = tables_[static_cast<size_t>(i)];
        for (const size_t column : table.columns) columns_[column].cut(table.kept);
        table.rows = table.kept;
    }
}

bool Streams::open_next_file() {
    if (file_ >= paths_.size()) return false;
    window_.open(paths_[file_++]);
    packet_start_ = 0;
    clock_ = 0;
    return true;
}

bool Streams::read_packet_head() {
    at_ = seen_from_ = seen_to_ = ready_ = 0;
    end_ = 8 * (window_.file_size() - packet_start_);
    elements_ = 0;
    last_big_ = -1;
    std::fill(is_set_.begin(), is_set_.end(), uint8_t{0});
    if (!run(plan_.packet_header, plan_.header_table)) return false;
    if (plan_.has_magic && number(kMagic) != kMagicNumber) return fail(Damage::magic);
    stream_ = 0;
    if (has(kStreamClass)) {
        const auto found = stream_by_id_.find(number(kStreamClass));
        if (found == stream_by_id_.end()) return fail(Damage::stream_class);
        stream_ = found->second;
    } else if (plan_.stream_classes.size() != 1) {
        return fail(Damage::stream_class);
    }
    const StreamClass& stream = plan_.stream_classes[stream_];
    if (!run(stream.context, stream.table)) return false;
    return true;
}

// Sizes of the packet whose head was read, with so many bytes left in the file.
bool Streams::check_sizes(uint64_t left) {
    const uint64_t whole = 8 * left;
    uint64_t total = whole, content = whole;
    if (has(kTotalBits)) total = content = number(kTotalBits);
    if (has(kContentBits)) {
        content = number(kContentBits);
        if (!has(kTotalBits)) total = content;
    }
    is_cut_ = total > whole;
    if (total % 8 != 0 || total < at_ || total == 0 || content > total || content < at_) {
        return fail(Damage::size);
    }
    packet_bytes_ = std::min(total, whole) / 8;
    content_bits_ = content;
    end_ = std::min(content, whole);
    ready_ = std::min(end_, 8 * seen_to_);
    return true;
}

bool Streams::begin_packet() {
    const uint64_t left = window_.file_size() - packet_start_;
    if (left == 0) return false;
    damage_ = Damage::none;
    packet_events_ = 0;
    packet_bytes_ = left;
    content_bits_ = 0;
    const bool is_read = read_packet_head() && check_sizes(left);
    int32_t first = plan_.header_table, count = plan_.header_tables;
    if (!is_read) {
        roll_back(first, count);
        if (stream_ < plan_.stream_classes.size()) {
            roll_back(plan_.stream_classes[stream_].first_table, plan_.stream_classes[stream_].tables);
        }
        // Where the next one begins cannot be known.
        ++damaged_;
        if (problems_.size() < kMostProblems) {
            problems_.push_back({damage_, file_ - 1, packet_start_ + at_ / 8});
        }
        packet_start_ = window_.file_size();
        return true;
    }
    end_row(plan_.header_table);
    keep(first, count);
    const StreamClass& stream = plan_.stream_classes[stream_];
    end_row(stream.table);
    keep(stream.first_table, stream.tables);
    tables_[static_cast<size_t>(stream.table)].packet.push_back(packets_);
    in_packet_ = true;
    return true;
}

void Streams::end_packet(Damage damage) {
    if (damage == Damage::none && is_cut_) damage = Damage::cut;
    if (damage != Damage::none) {
        ++damaged_;
        if (problems_.size() < kMostProblems) {
            problems_.push_back({damage, file_ - 1, packet_start_ + at_ / 8});
        }
    }
    const size_t row = packet_rows_[pFile].size();
    const auto put = [&](PacketColumn column, uint64_t value) { packet_rows_[column].push_back(value); };
    put(pFile, file_ - 1);
    put(pByte, packet_start_);
    put(pTotal, 8 * packet_bytes_);
    put(pContent, content_bits_);
    put(pStreamClass, plan_.stream_classes[stream_].id);
    static constexpr std::pair<PacketColumn, Register> said[] = {
        {pStream, kStream}, {pBegin, kBegin}, {pEnd, kEnd}, {pDiscarded, kDiscarded},
        {pSequence, kSequence}};
    for (const auto& [column, place] : said) {
        put(column, has(place) ? number(place) : 0);
        if (!has(place)) packet_nulls_[column].push_back(row);
    }
    put(pEvents, packet_events_);
    put(pDamage, static_cast<uint64_t>(damage));
    packet_start_ += packet_bytes_;
    in_packet_ = false;
    ++packets_;
}

size_t Streams::find_event(uint64_t id) const {
    const std::vector<size_t>& low = event_by_low_id_[stream_];
    if (id < low.size()) return low[static_cast<size_t>(id)];
    const auto& by_id = event_by_id_[stream_];
    const auto found = by_id.find(id);
    return found == by_id.end() ? kNoEvent : found->second;
}

bool Streams::read_event() {
    const StreamClass& stream = plan_.stream_classes[stream_];
    const uint64_t start = at_, before = clock_;
    elements_ = 0;
    is_set_[kEventClass] = 0;
    if (!run(stream.header, kNone)) return false;
    size_t place = only_event_[stream_];
    if (has(kEventClass)) place = find_event(number(kEventClass));
    if (place == kNoEvent) return fail(Damage::event_class);
    const EventClass& event = plan_.event_classes[place];
    if (!run(event.program, event.table) || (at_ == start && !fail(Damage::size))) {
        roll_back(event.first_table, event.tables);
        return false;
    }
    end_row(event.table);
    keep(event.first_table, event.tables);
    Table& table = tables_[static_cast<size_t>(event.table)];
    table.time.push_back(clock_);
    table.packet.push_back(packets_);
    table.event.push_back(events_);
    // Times of a stream never fall (CTF 1.8.3, 8). The first may be before its packet's begin.
    if (packet_events_ != 0 && clock_ < before) ++backward_;
    ++events_;
    ++packet_events_;
    ++waiting_events_;
    waiting_bytes_ += (at_ - start) / 8;
    return true;
}

void Streams::read_events(size_t most_events, size_t most_bytes) {
    while (at_ < end_) {
        if (waiting_events_ >= most_events || waiting_bytes_ >= most_bytes) return;
        if (!read_event()) {
            end_packet(damage_);
            return;
        }
    }
    end_packet(Damage::none);
}

bool Streams::read(size_t most_events, size_t most_bytes) {
    waiting_events_ = waiting_bytes_ = 0;
    while (waiting_events_ < most_events && waiting_bytes_ < most_bytes) {
        if (in_packet_) {
            read_events(most_events, most_bytes);
        } else if ((file_ == 0 || !begin_packet()) && !open_next_file()) {
            return false;
        }
    }
    return true;
}

Batch Streams::take(size_t place) {
    Table& table = tables_.at(place);
    Batch batch;
    batch.rows = static_cast<int64_t>(table.rows);
    for (const size_t column : table.columns) {
        batch.columns.push_back(columns_[column].take(std::to_string(column)));
    }
    if (!table.event.empty()) {
        batch.columns.push_back(wide_column("time", std::move(table.time), {}));
        batch.columns.push_back(wide_column("event", std::move(table.event), {}));
    }
    if (!table.packet.empty()) {
        batch.columns.push_back(wide_column("packet", std::move(table.packet), {}));
    }
    if (batch.columns.empty()) {
        batch.columns.push_back(wide_column("rows", std::vector<uint64_t>(table.rows), {}));
    }
    // The next batch is likely to have as many.
    for (std::vector<uint64_t>* rows : {&table.time, &table.packet, &table.event}) {
        rows->clear();
        rows->reserve(table.rows);
    }
    table.rows = table.kept = 0;
    return batch;
}

Batch Streams::take_packets() {
    Batch batch;
    batch.rows = static_cast<int64_t>(packet_rows_[pFile].size());
    for (size_t i = 0; i < pColumns; ++i) {
        batch.columns.push_back(
            wide_column(kPacketColumns[i], std::move(packet_rows_[i]), packet_nulls_[i]));
        packet_rows_[i].clear();
        packet_nulls_[i].clear();
    }
    return batch;
}

}  // namespace sightline::ctf
