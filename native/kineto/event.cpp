#include "kineto/event.h"

namespace sightline {

namespace {

constexpr std::string_view kArgNames[kArgs] = {
    "correlation", "Sequence number", "Fwd thread id", "Input Dims", "Input dims", "Input type",
    "Input Strides", "Concrete Inputs", "Call stack", "Python id", "Python parent id", "Python module id", "device", "stream",
    "context", "grid", "block", "registers per thread", "shared memory", "bytes", "kind",
    "graph id", "graph node id", "Collective name", "cuda_sync_kind", "wait_on_cuda_event_id",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Bytes", "Device Type", "Device Id",
    "Addr", "Total Allocated", "Total Reserved", "name", "Process Group Name", "Process Group ID",
    "Process Group Description", "Process Group Ranks", "Group size", "Seq", "Collective seq",
    "dtype", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank"};

constexpr size_t kLongestArg = 40;

// The arguments whose name has a given length.
const std::array<std::vector<Arg>, kLongestArg>& args_by_length() {
    static const auto table = [] {
        std::array<std::vector<Arg>, kLongestArg> made;
        for (size_t i = 0; i < kArgs; ++i) made[kArgNames[i].size()].push_back(static_cast<Arg>(i));
        return made;
    }();
    return table;
}

constexpr size_t kDumps = 6;
constexpr std::array<Arg, kDumps> kDumped = {kDims,    kDimsOld, kTypes,
                                           kStrides, kValues,  kGroupRanks};

bool has_zeros(std::string_view key) { return key.find('\0') != std::string_view::npos; }

}  // namespace

bool EventReader::add(od::value value, const char* end) {
    const char* begin = value.raw_json_token().data();
    if (*begin != '{') {
        Token token;
        if (!read_token(value, token)) return false;
        ++rows_.not_events;
        return true;
    }
    od::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS || !read_fields(object)) return false;
    return dispatch(begin, end);
}

bool EventReader::read_fields(od::object object) {
    ph_ = ts_ = dur_ = cat_ = name_ = pid_ = tid_ = id_ = Token{};
    for (const Arg arg : seen_) args_[arg] = Token{};
    seen_.clear();
    has_args_ = has_grid_ = has_block_ = is_broken_ = false;
    Token ignored;
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        Token* target = &ignored;
        switch (key.size()) {
            case 2:
                if (key == "ph") target = &ph_;
                else if (key == "ts") target = &ts_;
                else if (key == "id") target = &id_;
                break;
            case 3:
                if (key == "dur") target = &dur_;
                else if (key == "cat") target = &cat_;
                else if (key == "pid") target = &pid_;
                else if (key == "tid") target = &tid_;
                break;
            case 4:
                if (key == "name") {
                    target = &name_;
                } else if (key == "args") {
                    if (!read_args(field.value())) return false;
                    continue;
                }
                break;
            default: break;
        }
        // An event with a name twice is two, of which the end of one and the beginning of the other
        // are gone; so may be one with zeros in a name, of a disk that lost what stood there.
        is_broken_ |= target == &ignored ? has_zeros(key) : target->kind != Kind::absent;
        if (!read_token(field.value(), *target)) return false;
    }
    return true;
}

bool EventReader::read_args(od::value value) {
    // Of equal keys the last one counts: what an earlier `args` said is forgotten.
    for (const Arg arg : seen_) args_[arg] = Token{};
    seen_.clear();
    has_grid_ = has_block_ = false;
    has_args_ = value.raw_json_token()[0] == '{';
    Token ignored;
    if (!has_args_) return read_token(value, ignored);
    od::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return false;
    for (auto item : object) {
        od::field field;
        std::string_view key;
        if (std::move(item).get(field) != simdjson::SUCCESS || !key_of(field, key)) return false;
        Arg wanted = kArgs;
        if (key.size() < kLongestArg) {
            for (const Arg arg : args_by_length()[key.size()]) {
                if (kArgNames[arg] == key) wanted = arg;
            }
        }
        if (wanted == kArgs) {
            is_broken_ |= has_zeros(key);
            if (!read_token(field.value(), ignored)) return false;
        } else if (!read_arg(wanted, field.value())) {
            return false;
        }
    }
    return true;
}

bool EventReader::read_arg(Arg which, od::value value) {
    seen_.push_back(which);
    if (seen_.size() > 4 * kArgs) return false;  // only keys that repeat come here so often
    Token& token = args_[which];
    const char first = value.raw_json_token()[0];
    if (which == kGrid || which == kBlock) {
        bool& has = which == kGrid ? has_grid_ : has_block_;
        has = false;
        if (first == '[') return read_triple(value, which == kGrid ? grid_ : block_);
        return read_token(value, token);
    }
    for (size_t i = 0; i < kDumps; ++i) {
        if (kDumped[i] != which) continue;
        // Ranks are most often a text, which is read later; the others become JSON text as a whole.
        if (first == 'n' || (which == kGroupRanks && first != '[')) return read_token(value, token);
        dumps_[i].clear();
        if (!dump(value, dumps_[i])) return false;
        token.kind = which == kGroupRanks ? Kind::composite : Kind::text;
        token.text = dumps_[i];
        return true;
    }
    return read_token(value, token);
}

bool EventReader::read_triple(od::value value, std::array<int64_t, 3>& triple) {
    bool& has = &triple == &grid_ ? has_grid_ : has_block_;
    od::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) return false;
    size_t count = 0;
    for (auto item : array) {
        od::value child;
        Token token;
        if (std::move(item).get(child) != simdjson::SUCCESS) return false;
        if (!read_token(child, token)) return false;
        if (count < 3) triple[count] = integer_of(token);
        ++count;
    }
    has = count == 3;
    return true;
}

bool EventReader::dispatch(const char* begin, const char* end) {
    bool ok = true;
    rows_.not_events += is_broken_;
    if (ph_.kind == Kind::text && ph_.text.size() == 1) {
        switch (ph_.text[0]) {
            case 'X': ok = complete(); break;
            case 's':
            case 'f': ok = flow_row(ph_.text[0]); break;
            case 'i':
            case 'I': ok = instant(); break;
            case 'M': ok = naming(); break;
            case 'C': ok = counters(begin, end); break;
            case 'B':
            case 'E': ok = half(ph_.text[0]); break;
            default:
                // The phases of the Trace Event Format that hold nothing which is read; others are
                // none, and the event that had one is lost.
                if (std::string_view("bneSTptFPNODVvRc()=a").find(ph_.text[0]) ==
                    std::string_view::npos) {
                    ++rows_.not_events;
                    return true;
                }
        }
    } else {
        ++rows_.not_events;
        return true;
    }
    if (ok) ++rows_.events;
    return ok;
}

bool EventReader::ids(int64_t& pid, int64_t& tid) { return id(pid_, pid) && id(tid_, tid); }

bool EventReader::id(const Token& token, int64_t& value) {
    return id_of(token, value) == Read::ok || !odd();
}

bool EventReader::time(const Token& token, int64_t& ns, bool& known) {
    const Read read = ns_of(token, ns);
    if (read == Read::odd && odd()) return false;
    known = known && read == Read::ok;
    return true;
}

bool EventReader::text_code(const Token& token, uint32_t& code) {
    std::string_view text;
    const Read read = text_of(token, text);
    if (read == Read::odd && odd()) return false;
    code = read == Read::ok ? rows_.texts.intern(text) : 0;
    return true;
}

bool EventReader::name_code(uint32_t& code) {
    std::string_view text;
    const Read read = text_of(name_, text);
    if (read == Read::odd && odd()) return false;
    code = rows_.texts.intern(read == Read::ok ? text : std::string_view());
    return true;
}

}  // namespace sightline
