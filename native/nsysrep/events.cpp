#include "nsysrep/events.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "columns/numbers.h"
#include "protobuf/wire.h"

namespace sightline {

namespace {

constexpr uint32_t kEvents = 1;  // in a block: the events
constexpr uint32_t kType = 1;    // in an event: its type; the other field is its payload
constexpr uint32_t kMostFields = 1024;  // no field of a plan has a higher number
// Places that are no field's.
constexpr int kChainNumber = -1, kDepth = -2;
// An event takes 10 bytes of a file and more (recordings of 2021 to 2025, 10 to 680), a frame of a
// call chain 2 and more: what has many more rows than bytes is made to fill the memory.
constexpr uint64_t kRows = 1 << 20, kRowsPerFileByte = 4;

std::shared_ptr<BatchColumn> make_column(const std::string& name, const Packed& column,
                                         bool narrow) {
    switch (narrow ? column.width() : sizeof(int64_t)) {
        case 1: return numbers_column(name.c_str(), column.values<int8_t>());
        case 2: return numbers_column(name.c_str(), column.values<int16_t>());
        case 4: return numbers_column(name.c_str(), column.values<int32_t>());
        default: return numbers_column(name.c_str(), column.values<int64_t>());
    }
}

}  // namespace

ReportEvents::ReportEvents(const std::string& path, uint64_t start, uint64_t end,
                           uint64_t most_events, const std::vector<TablePlan>& plans)
    : blocks_(path, start, end),
      most_events_(most_events),
      most_rows_(std::max(kRows, kRowsPerFileByte * blocks_.file_size())) {
    for (const TablePlan& plan : plans) add_plan(plan);
    size_t slots = 0;
    for (const Payload& payload : payloads_) slots = std::max(slots, payload.slots);
    slots_.resize(slots);
}

int ReportEvents::table_of(const std::string& name) {
    const auto [found, is_new] = table_by_name_.emplace(name, static_cast<int>(tables_.size()));
    if (is_new) tables_.emplace_back();
    return found->second;
}

int ReportEvents::add_action(Payload& payload, int message, uint32_t field, Kind kind) {
    if (field == 0 || field >= kMostFields) throw std::invalid_argument("a field has no such number");
    std::vector<int>& actions = payload.messages[static_cast<size_t>(message)].actions;
    if (actions.size() <= field) actions.resize(field + 1, kNone);
    if (actions[field] == kNone) {
        Action action;
        action.kind = kind;
        action.slot = static_cast<int>(payload.slots++);
        if (kind == Kind::message || kind == Kind::frames) {
            action.message = static_cast<int>(payload.messages.size());
        }
        actions[field] = static_cast<int>(payload.actions.size());
        payload.actions.push_back(action);
        if (action.message != kNone) payload.messages.emplace_back();  // `actions` is gone now
    }
    const auto place = static_cast<size_t>(
        payload.messages[static_cast<size_t>(message)].actions[field]);
    if (payload.actions[place].kind != kind) throw std::invalid_argument("a field of two kinds");
    return static_cast<int>(place);
}

void ReportEvents::add_columns(Payload& payload, Table& table,
                               const std::vector<ColumnPlan>& columns, int message) {
    for (const ColumnPlan& column : columns) {
        Place place;
        place.missing = column.missing;
        place.slot = kChainNumber;
        const Kind kind = column.kind == "text"    ? Kind::text
                          : column.kind == "bytes" ? Kind::bytes
                          : column.kind == "real"  ? Kind::real
                                                   : Kind::number;
        for (const FieldPath& path : column.paths) {
            int at = message;
            for (size_t i = 0; i + 1 < path.size(); ++i) {
                const int action = add_action(payload, at, path[i], Kind::message);
                at = payload.actions[static_cast<size_t>(action)].message;
            }
            Action& action = payload.actions[static_cast<size_t>(
                add_action(payload, at, path.back(), kind))];
            if (place.slot == kChainNumber) place.slot = action.slot;
            action.slot = place.slot;
        }
        table.names.push_back(column.name);
        table.real.push_back(column.kind == "real");
        table.places.push_back(place);
    }
    table.columns.resize(table.names.size());
}

void ReportEvents::add_plan(const TablePlan& plan) {
    if (plan.payload >= kMostFields) throw std::invalid_argument("a field has no such number");
    if (payload_by_field_.size() <= plan.payload) payload_by_field_.resize(plan.payload + 1, kNone);
    int& place = payload_by_field_[plan.payload];
    if (place == kNone) {
        place = static_cast<int>(payloads_.size());
        payloads_.emplace_back();
        payloads_.back().messages.emplace_back();
    }
    Payload& payload = payloads_[static_cast<size_t>(place)];
    Rule rule;
    rule.values = plan.values;
    int message = 0;
    for (size_t i = 0; i < plan.when.size(); ++i) {
        const bool is_value = i + 1 == plan.when.size() && !plan.values.empty();
        const auto action = static_cast<size_t>(
            add_action(payload, message, plan.when[i], is_value ? Kind::number : Kind::message));
        rule.when = payload.actions[action].slot;
        message = payload.actions[action].message;
    }
    if (!plan.name.empty()) {
        rule.table = table_of(plan.name);
        add_columns(payload, tables_[static_cast<size_t>(rule.table)], plan.columns, 0);
    }
    for (const ChainPlan& chain : plan.chain) {
        const size_t before = payload.slots;
        const auto action = static_cast<size_t>(
            add_action(payload, 0, chain.path.at(0), Kind::frames));
        payload.frame = payload.actions[action].message;
        rule.chain = table_of(chain.table);
        Table& table = tables_[static_cast<size_t>(rule.chain)];
        table.names = {"id", "stackDepth"};
        table.real = {false, false};
        table.places = {{kChainNumber, 0}, {kDepth, 0}};
        add_columns(payload, table, chain.columns, payload.frame);
        for (size_t slot = before; slot < payload.slots; ++slot) {
            payload.frame_slots.push_back(static_cast<int>(slot));
        }
    }
    payload.rules.push_back(std::move(rule));
}

bool ReportEvents::read(size_t blocks) {
    while (!done_ && blocks-- > 0) {
        if (events_ >= most_events_) {
            done_ = true;
            break;
        }
        switch (blocks_.next(block_)) {
            case Blocks::Got::ok:
                if (!read_block(block_.data(), block_.size())) ++damaged_blocks_;
                break;
            case Blocks::Got::bad: ++damaged_blocks_; break;
            case Blocks::Got::cut: cut_ = true; [[fallthrough]];
            case Blocks::Got::end: done_ = true; break;
        }
        if (rows_ > most_rows_) too_many_ = done_ = true;
    }
    return !done_;
}

bool ReportEvents::read_block(const uint8_t* data, size_t size) {
    Fields head(data, size);
    uint64_t length = 0;
    if (!head.varint(length)) return false;
    const size_t rest = size - static_cast<size_t>(head.at() - data);
    Fields fields(head.at(), static_cast<size_t>(std::min<uint64_t>(length, rest)));
    Field field;
    while (fields.next(field)) {
        if (field.number != kEvents || field.wire != Wire::bytes) continue;
        ++events_;
        if (!read_event(field.data, field.size)) ++damaged_events_;
        if (rows_ > most_rows_) break;
    }
    return fields.is_whole() && length == rest;
}

bool ReportEvents::read_event(const uint8_t* data, size_t size) {
    Fields fields(data, size);
    Field field, given;
    uint64_t type = 0;
    while (fields.next(field)) {
        if (field.number == kType && field.wire == Wire::varint) type = field.value;
        if (field.number != kType && field.wire == Wire::bytes) given = field;
    }
    if (!fields.is_whole()) return false;
    if (given.number < payload_by_field_.size() && payload_by_field_[given.number] != kNone) {
        const Payload& payload = payloads_[static_cast<size_t>(payload_by_field_[given.number])];
        std::fill_n(slots_.begin(), payload.slots, kNull);
        frames_.clear();
        if (!read_message(payload, 0, given.data, given.size)) return false;
        for (const Rule& rule : payload.rules) {
            if (rule.when != kNone) {
                // A number's default may be left out of the message.
                int64_t value = slots_[static_cast<size_t>(rule.when)];
                if (rule.values.empty() ? value == kNull : false) continue;
                if (!rule.values.empty()) {
                    if (value == kNull) value = 0;
                    if (std::find(rule.values.begin(), rule.values.end(), value) ==
                        rule.values.end()) {
                        continue;
                    }
                }
            }
            append(payload, rule);
            return true;
        }
    }
    ++unknown_[{static_cast<uint32_t>(type), given.number}];
    return true;
}

bool ReportEvents::read_message(const Payload& payload, int message, const uint8_t* data,
                                size_t size) {
    const std::vector<int>& actions = payload.messages[static_cast<size_t>(message)].actions;
    Fields fields(data, size);
    Field field;
    while (fields.next(field)) {
        if (field.number >= actions.size() || actions[field.number] == kNone) continue;
        const Action& action = payload.actions[static_cast<size_t>(actions[field.number])];
        int64_t& slot = slots_[static_cast<size_t>(action.slot)];
        if ((action.kind >= Kind::text) != (field.wire == Wire::bytes)) return false;
        switch (action.kind) {
            case Kind::number: slot = static_cast<int64_t>(field.value); break;
            case Kind::real: {
                double value = 0;
                if (field.wire == Wire::fixed32) {
                    float narrow = 0;
                    const auto bits = static_cast<uint32_t>(field.value);
                    std::memcpy(&narrow, &bits, sizeof narrow);
                    value = static_cast<double>(narrow);
                } else {
                    std::memcpy(&value, &field.value, sizeof value);
                }
                std::memcpy(&slot, &value, sizeof value);
                break;
            }
            case Kind::text:
            case Kind::bytes:
                slot = texts_.intern(
                    {reinterpret_cast<const char*>(field.data), field.size});
                break;
            case Kind::message:
                slot = 1;
                if (!read_message(payload, action.message, field.data, field.size)) return false;
                break;
            case Kind::frames:
                if (!read_message(payload, action.message, field.data, field.size)) return false;
                for (const int place : payload.frame_slots) {
                    frames_.push_back(slots_[static_cast<size_t>(place)]);
                    slots_[static_cast<size_t>(place)] = kNull;
                }
                break;
        }
    }
    return fields.is_whole();
}

void ReportEvents::append(const Payload& payload, const Rule& rule) {
    if (rule.table == kNone) return;
    int64_t chain = kNull;
    if (rule.chain != kNone && !frames_.empty()) {
        Table& frames = tables_[static_cast<size_t>(rule.chain)];
        chain = ++frames.chains;
        const size_t width = payload.frame_slots.size();
        for (size_t at = 0; at < frames_.size(); at += width) {
            for (size_t i = 0; i < width; ++i) {
                slots_[static_cast<size_t>(payload.frame_slots[i])] = frames_[at + i];
            }
            append_row(frames, chain, static_cast<int64_t>(at / width));
        }
    }
    append_row(tables_[static_cast<size_t>(rule.table)], chain, 0);
}

void ReportEvents::append_row(Table& table, int64_t chain, int64_t depth) {
    for (size_t i = 0; i < table.places.size(); ++i) {
        const Place& place = table.places[i];
        const int64_t value = place.slot == kChainNumber ? chain
                              : place.slot == kDepth     ? depth
                                                         : slots_[static_cast<size_t>(place.slot)];
        table.columns[i].append(value == kNull ? place.missing : value);
    }
    ++table.rows;
    ++rows_;
}

size_t ReportEvents::rows(const std::string& table) const {
    const auto found = table_by_name_.find(table);
    return found == table_by_name_.end() ? 0 : tables_[static_cast<size_t>(found->second)].rows;
}

ReportEvents::Columns ReportEvents::columns(const std::string& table,
                                            const std::vector<std::string>& names) const {
    const Table& from = tables_.at(static_cast<size_t>(table_by_name_.at(table)));
    Columns out;
    for (const std::string& name : names) add_column(out, from, place_of(from, name), false);
    return out;
}

ReportEvents::Columns ReportEvents::take(const std::string& table,
                                         const std::vector<std::string>& names,
                                         const std::vector<std::string>& narrow) {
    Table& from = tables_.at(static_cast<size_t>(table_by_name_.at(table)));
    Columns out;
    for (const std::string& name : names) {
        const bool is_narrow = std::find(narrow.begin(), narrow.end(), name) != narrow.end();
        const size_t place = place_of(from, name);
        add_column(out, from, place, is_narrow);
        from.columns[place] = Packed();
    }
    from.taken = true;
    from.columns.clear();
#ifdef __GLIBC__
    malloc_trim(0);  // the chunks are too small for glibc to hand back by itself
#endif
    return out;
}

size_t ReportEvents::place_of(const Table& table, const std::string& name) {
    if (table.taken) throw std::logic_error("the table's columns were taken");
    const auto found = std::find(table.names.begin(), table.names.end(), name);
    if (found == table.names.end()) throw std::out_of_range("the table has no such column");
    return static_cast<size_t>(found - table.names.begin());
}

void ReportEvents::add_column(Columns& out, const Table& from, size_t place, bool narrow) {
    const Packed& column = from.columns[place];
    const size_t number = out.constants.size() + out.varying.columns.size();
    const bool real = from.real[place];
    out.varying.rows = static_cast<int64_t>(from.rows);
    if (const auto one = column.constant(); one && (!real || *one == kNull)) {
        out.constants.emplace_back(number, *one);
        return;
    }
    auto made = make_column(std::to_string(number), column, narrow && !real);
    if (real) made->format = "g";
    out.varying.columns.push_back(std::move(made));
}

}  // namespace sightline
