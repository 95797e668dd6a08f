// What an event that has been read becomes: rows of the tables, by its phase and category.
#include <algorithm>
#include <cstring>

#include "kineto/boundaries.h"
#include "kineto/categories.h"
#include "kineto/event.h"

namespace sightline {

namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    }
    return out;
}

}  // namespace

bool EventReader::complete() {
    int64_t start = 0;
    int64_t length = 0;
    bool known = true;
    if (!time(ts_, start, known)) return false;
    if (dur_.kind != Kind::absent && !time(dur_, length, known)) return false;
    if (!known || (length > 0 && start > kMaxInt - length)) {
        ++rows_.not_events;
        return true;
    }
    if (length < 0) {
        ++rows_.negative_durations;
        return true;
    }
    const int64_t end = start + length;
    if (!lower_category()) return false;
    const Category category = category_of(category_);
    switch (category) {
        case Category::kernel:
            rows_.has_hpu |= category_ == "hpu_op";
            return device_row(device::kernel, start, end);
        case Category::processor: {
            rows_.has_mtia = true;
            std::string_view name;
            const bool known = text_of(name_, name) == Read::ok && is_known_work(name);
            return device_row(known ? device::kernel : device::other, start, end);
        }
        case Category::memcpy: return device_row(device::memcpy, start, end);
        case Category::memset: return device_row(device::memset, start, end);
        case Category::mirror: return range_row(start, end);
        case Category::sync: sync_row(start, end); return true;
        case Category::span:
            rows_.has_span = true;
            rows_.span_start = start;
            rows_.span_end = end;
            return true;
        case Category::unknown: break;
        default: return host_row(layer_of(category), start, end, false);
    }
    if (!host_row(other, start, end, false)) return false;
    const uint32_t code = rows_.texts.intern(category_.empty() ? "(none)" : category_);
    for (auto& [known_code, count] : rows_.unknown) {
        if (known_code == code) {
            ++count;
            return true;
        }
    }
    rows_.unknown.emplace_back(code, 1);
    return true;
}

bool EventReader::host_row(Layer layer, int64_t start, int64_t end, bool is_open) {
    int64_t pid = kNull;
    int64_t tid = kNull;
    uint32_t name = 0;
    uint32_t stack = 0;
    uint32_t module = 0;
    if (!name_code(name) || !ids(pid, tid)) return false;
    PieceTable& t = table(kHost);
    if (has_args_) {
        const Token& dims = arg(arg(kDims).kind == Kind::absent ? kDimsOld : kDims);
        uint32_t shapes = 0;
        uint32_t types = 0;
        uint32_t strides = 0;
        uint32_t values = 0;
        if (!text_code(arg(kCallStack), stack) || !text_code(arg(kModule), module) ||
            !text_code(dims, shapes) || !text_code(arg(kTypes), types) ||
            !text_code(arg(kStrides), strides) || !text_code(arg(kValues), values)) {
            return false;
        }
        if (arg(kCollective).kind != Kind::absent &&
            !collective_row(collective::by_host, t.rows)) {
            return false;
        }
        t.put(host::correlation, integer(kCorrelation));
        t.put(host::sequence, integer(kSequence));
        t.put(host::python_id, integer(kPythonId));
        t.put(host::python_parent, integer(kPythonParent));
        t.code(host::shapes, shapes);
        t.code(host::types, types);
        t.code(host::strides, strides);
        t.code(host::values, values);
        t.code(host::stack, stack);
        t.code(host::module, module);
    }
    const bool backward = has_args_ && integer(kForwardThread) > 0;
    t.put(host::start, start);
    t.put(host::end, end);
    t.code(host::thread, rows_.threads.number(pid, tid));
    t.code(host::name, name);
    t.tag.put(t.rows, static_cast<uint8_t>(layer | (backward ? kBackward : 0) |
                                           (is_open ? kOpen : 0)));
    ++t.rows;
    return true;
}

bool EventReader::device_row(device::Op kind, int64_t start, int64_t end) {
    int64_t pid = kNull;
    int64_t tid = kNull;
    uint32_t name = 0;
    if (!name_code(name) || !ids(pid, tid)) return false;
    PieceTable& t = table(kDevice);
    uint32_t copy = 0;
    if (kind == device::memcpy) {
        // Direction and memory kinds follow from both texts; they are found once per pair.
        const Token& words = arg(kCopyKind);
        if (words.kind == Kind::composite && odd()) return false;
        std::string_view text;
        if (text_of(name_, text) != Read::ok) text = {};
        std::string pair(text);
        pair += '\x1f';
        if (words.kind == Kind::text) pair += words.text;
        copy = rows_.texts.intern(pair);
    }
    if (arg(kCollective).kind != Kind::absent && !collective_row(collective::by_device, t.rows)) {
        return false;
    }
    const int64_t device_id = integer(kDeviceArg);
    const int64_t stream = integer(kStream);
    t.put(device::device_id, device_id == kNull ? pid : device_id);
    t.put(device::context, integer(kContext));
    t.put(device::stream, stream == kNull ? tid : stream);
    t.put(device::start, start);
    t.put(device::end, end);
    t.put(device::correlation, integer(kCorrelation));
    for (size_t i = 0; i < 3; ++i) {
        if (has_grid_) t.put(device::grid_x + i, grid_[i]);
        if (has_block_) t.put(device::block_x + i, block_[i]);
    }
    t.put(device::registers, integer(kRegisters));
    t.put(device::shared, integer(kShared));
    t.put(device::bytes, integer(kBytes));
    t.put(device::graph, integer(kGraph));
    t.put(device::graph_node, integer(kGraphNode));
    t.code(device::thread, rows_.threads.number(pid, tid));
    t.code(device::name, name);
    t.code(device::copy, copy);
    t.tag.put(t.rows, kind);
    ++t.rows;
    return true;
}

// The last thing of a row that can be refused: what it adds is not taken back.
bool EventReader::collective_row(collective::Owner owner, size_t row) {
    PieceTable& t = table(kCollectives);
    std::string_view text;
    if (text_of(arg(kCollective), text) == Read::odd || (!is_ascii(text) && odd())) return false;
    std::string name = lower(text);
    name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
    uint32_t group = 0;
    uint32_t description = 0;
    uint32_t dtype = 0;
    uint32_t ranks = 0;
    const Token& by_name = arg(kGroupName);
    if (!text_code(by_name.kind == Kind::absent ? arg(kGroupId) : by_name, group) ||
        !text_code(arg(kGroupDescription), description) || !text_code(arg(kDtype), dtype) ||
        !ranks_code(ranks)) {
        return false;
    }
    t.put(collective::row, static_cast<int64_t>(row));
    t.put(collective::group_size, integer(kGroupSize));
    t.put(collective::sequence,
          integer(arg(kSeq).kind == Kind::absent ? kCollectiveSeq : kSeq));
    t.put(collective::elements_in, integer(kElementsIn));
    t.put(collective::elements_out, integer(kElementsOut));
    // Of a send or receive, one of them: the other rank.
    t.put(collective::peer, integer(arg(kSource).kind == Kind::absent ? kTarget : kSource));
    t.code(collective::name, rows_.texts.intern(name));
    t.code(collective::group, group);
    t.code(collective::description, description);
    t.code(collective::ranks, ranks);
    t.code(collective::dtype, dtype);
    t.tag.put(t.rows, owner);
    ++t.rows;
    return true;
}

// The ranks as the JSON text of a list, from a list or from the text of one; else null.
bool EventReader::ranks_code(uint32_t& code) {
    const Token& ranks = arg(kGroupRanks);
    code = 0;
    if (ranks.kind == Kind::composite) {
        if (ranks.text.empty() || ranks.text[0] != '[') return true;
        code = rows_.texts.intern(ranks.text);
        return true;
    }
    if (ranks.kind != Kind::text) return true;
    // Kineto shortens long lists to '[0, 8, ..., 56]', which no JSON reader takes.
    if (ranks.text.find("...") != std::string_view::npos) return true;
    const auto plain = [](char c) { return (c >= '0' && c <= '9') || c == ',' || c == ' '; };
    const std::string_view text = ranks.text;
    const bool is_plain = text.size() >= 2 && text.front() == '[' && text.back() == ']' &&
                          std::all_of(text.begin() + 1, text.end() - 1, plain);
    if (!is_plain && odd()) return false;
    if (is_plain) code = rows_.texts.intern(text);
    return true;
}

bool EventReader::range_row(int64_t start, int64_t end) {
    int64_t pid = kNull;
    int64_t tid = kNull;
    uint32_t name = 0;
    if (!name_code(name) || !ids(pid, tid)) return false;
    PieceTable& t = table(kRanges);
    t.put(range::device_id, pid);
    t.put(range::stream, tid);
    t.put(range::start, start);
    t.put(range::end, end);
    t.code(range::name, name);
    ++t.rows;
    return true;
}

void EventReader::sync_row(int64_t start, int64_t end) {
    std::string_view kind = "other";
    const Token& given = arg(kSyncKind);
    if (given.is("Stream Sync")) kind = "stream";
    if (given.is("Stream Wait Event")) kind = "stream_wait_event";
    if (given.is("Event Sync")) kind = "event";
    if (given.is("Context Sync")) kind = "context";
    PieceTable& t = table(kSyncs);
    t.put(sync::device_id, integer(kDeviceArg));
    t.put(sync::stream, integer(kStream));
    t.put(sync::event, integer(kWaitEvent));
    t.put(sync::wait_on_stream, integer(kWaitStream));
    t.put(sync::correlation, integer(kCorrelation));
    t.put(sync::recorded_by, integer(kRecordedBy));
    t.put(sync::start, start);
    t.put(sync::end, end);
    t.code(sync::kind, rows_.texts.intern(kind));
    ++t.rows;
}

bool EventReader::instant() {
    int64_t when = 0;
    bool known = true;
    if (!name_.is("[memory]") || !has_args_) return true;
    if (!time(ts_, when, known)) return false;
    const int64_t change = integer(kMemoryBytes);
    if (!known || change == kNull) return true;
    int64_t pid = kNull;
    int64_t tid = kNull;
    if (!ids(pid, tid)) return false;
    // Device Type is c10::DeviceType, where 0 is the CPU.
    const bool on_host = integer(kDeviceType) == 0;
    PieceTable& t = table(kMemory);
    t.put(memory::time, when);
    t.put(memory::device_id, on_host ? kNull : integer(kMemoryDevice));
    t.put(memory::address, integer(kAddress));
    t.put(memory::bytes, change < 0 ? -change : change);
    t.put(memory::allocated, integer(kAllocated));
    t.put(memory::reserved, integer(kReserved));
    t.put(memory::pid, pid);
    t.put(memory::tid, tid);
    t.code(memory::action, rows_.texts.intern(change < 0 ? "free" : "alloc"));
    ++t.rows;
    return true;
}

bool EventReader::flow_row(char phase) {
    int64_t flow_id = kNull;
    int64_t when = 0;
    int64_t pid = kNull;
    int64_t tid = kNull;
    bool known = true;
    if (!id(id_, flow_id) || !time(ts_, when, known) || !ids(pid, tid)) return false;
    if (flow_id == kNull || !known) return true;
    PieceTable& t = table(kFlows);
    t.put(flow::id, flow_id);
    t.put(flow::time, when);
    t.code(flow::thread, rows_.threads.number(pid, tid));
    t.tag.put(t.rows, static_cast<uint8_t>((cat_.is("fwdbwd") ? flow::forward_backward
                                                              : flow::launch) |
                                           (phase == 's' ? flow::is_start : 0)));
    ++t.rows;
    return true;
}

bool EventReader::naming() {
    const bool of_thread = name_.is("thread_name");
    if (!has_args_ || !(of_thread || name_.is("process_name"))) return true;
    int64_t pid = kNull;
    int64_t tid = kNull;
    if (!id(pid_, pid) || (of_thread && !id(tid_, tid))) return false;
    const Token& given = arg(kName);
    if (given.kind == Kind::text && pid != kNull && (!of_thread || tid != kNull)) {
        rows_.namings.push_back({of_thread, pid, tid, rows_.texts.intern(given.text)});
    }
    return true;
}

// A begin becomes an open row; who closes it is found when the pieces are put in order.
bool EventReader::half(char phase) {
    int64_t when = kNull;
    int64_t pid = kNull;
    int64_t tid = kNull;
    bool known = true;
    if (!time(ts_, when, known) || !ids(pid, tid)) return false;
    if (!known) when = kNull;
    const size_t row = table(kHost).rows;
    if (phase == 'B') {
        if (!lower_category()) return false;
        if (!host_row(layer_of(category_of(category_)), when, kNull, true)) return false;
    }
    // An end may leave out whose it is.
    uint32_t name = 0;
    if (name_.kind == Kind::text && !name_code(name)) return false;
    rows_.halves.push_back({phase == 'B', row, name, pid == kNull ? 0 : pid,
                            tid == kNull ? 0 : tid, when});
    return true;
}

// Every argument of a counter is a series of its own. Counters are rare, so the event is read
// once more for them, on its own.
bool EventReader::counters(const char* begin, const char* end) {
    int64_t when = 0;
    int64_t pid = kNull;
    bool known = true;
    if (!has_args_) return true;
    if (!time(ts_, when, known) || !id(pid_, pid)) return false;
    if (!known) return true;
    std::string_view name;
    if (text_of(name_, name) == Read::odd) return false;

    const size_t size = end_of_value(begin, static_cast<size_t>(end - begin));
    const simdjson::padded_string own(begin, size);
    od::parser parser;
    od::document document;
    od::object object;
    if (parser.iterate(own).get(document) != simdjson::SUCCESS ||
        document.get_object().get(object) != simdjson::SUCCESS) {
        return false;
    }
    std::vector<std::pair<std::string, double>> series;
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        if (key != "args") continue;
        od::object args;
        series.clear();
        if (field.value().get_object().get(args) != simdjson::SUCCESS) continue;
        for (auto arg_item : args) {
            od::field one;
            Token token;
            if (std::move(arg_item).get(one) != simdjson::SUCCESS || !key_of(one, key)) return false;
            std::string owned(key);
            if (!read_token(one.value(), token)) return false;
            double value = 0;
            Read read = Read::none;
            if (token.kind == Kind::text || token.kind == Kind::integer) {
                read = to_double(token.text, value);
            }
            const bool repeats = std::any_of(series.begin(), series.end(),
                                             [&](const auto& s) { return s.first == owned; });
            if (odd() && (read == Read::odd || repeats || series.size() > 200)) return false;
            if (read == Read::ok) series.emplace_back(std::move(owned), value);
        }
    }
    PieceTable& t = table(kCounters);
    for (const auto& [label, value] : series) {
        std::string metric(name);
        metric += ": ";
        metric += label;
        int64_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        t.put(counter::device_id, pid);
        t.put(counter::time, when);
        t.wide[counter::value].put(t.rows, bits);
        t.code(counter::metric, rows_.texts.intern(metric));
        ++t.rows;
    }
    return true;
}

bool EventReader::lower_category() {
    category_.clear();
    if (cat_.kind != Kind::text) return true;
    if (!is_ascii(cat_.text) && odd()) return false;
    category_ = lower(cat_.text);
    return true;
}

}  // namespace sightline
