#include "pickle/machine.h"

#include <algorithm>
#include <cstring>

namespace sightline {

namespace {

constexpr size_t kBuffer = 1 << 20;
constexpr size_t kLongestOpcode = 16;
// Of a longer text the beginning is kept: names and paths have some 100 bytes, the metadata that a
// program gives some 1,000.
constexpr uint64_t kMostText = 64 << 10;
// Picklers write lists and dicts in pieces of 1,000 items (CPython's _pickle.c, BATCHSIZE).
constexpr size_t kMostStack = 1 << 24;
constexpr size_t kMostMarks = 1 << 16;
// A dict of a snapshot takes 30 bytes and more, an item 2. A file that has more objects for its
// bytes was made to take memory.
constexpr uint64_t kFreeObjects = 1 << 20, kBytesPerObject = 4;
constexpr const char* kEndsInNumber = "it ends in a number";

enum Op : uint8_t {
    MARK = '(', STOP = '.', POP = '0', POP_MARK = '1', DUP = '2', NONE = 'N', NEWTRUE = 0x88,
    NEWFALSE = 0x89, BININT = 'J', BININT1 = 'K', BININT2 = 'M', BINFLOAT = 'G', LONG1 = 0x8a,
    LONG4 = 0x8b, BINUNICODE = 'X', SHORT_BINUNICODE = 0x8c, BINUNICODE8 = 0x8d,
    BINSTRING = 'T', SHORT_BINSTRING = 'U', BINBYTES = 'B', SHORT_BINBYTES = 'C',
    BINBYTES8 = 0x8e, BYTEARRAY8 = 0x96, EMPTY_DICT = '}', EMPTY_LIST = ']', EMPTY_TUPLE = ')',
    EMPTY_SET = 0x8f, ADDITEMS = 0x90, FROZENSET = 0x91, APPEND = 'a', APPENDS = 'e', LIST = 'l',
    DICT = 'd', SETITEM = 's', SETITEMS = 'u', TUPLE = 't', TUPLE1 = 0x85, TUPLE2 = 0x86,
    TUPLE3 = 0x87, BINGET = 'h', LONG_BINGET = 'j', BINPUT = 'q', LONG_BINPUT = 'r',
    MEMOIZE = 0x94, PROTO = 0x80, FRAME = 0x95,
};

}  // namespace

// Eight more bytes than are ever filled, so that a number of any size is read by one load.
Machine::Machine(const std::string& path)
    : source_(open_source(path)), buffer_(2 * kBuffer + sizeof(uint64_t)) {}

bool Machine::read(uint64_t budget) {
    const uint64_t until = position() + budget;
    while (!done_ && position() < until) {
        if (!step()) break;
    }
    if (!done_ && (!damage_.empty() || !refused_.empty())) {
        if (refused_.empty()) fold();
        done_ = true;
    }
    return !done_;
}

// Makes `count` bytes, at most kBuffer, follow the place that was read up to.
inline bool Machine::fill(size_t count) { return end_ - at_ >= count || fill_more(count); }

bool Machine::fill_more(size_t count) {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    taken_ += at_;
    end_ -= at_;
    at_ = 0;
    while (end_ < count && !ended_) {
        const size_t got = source_->read(buffer_.data() + end_, kBuffer);
        ended_ = got == 0;
        end_ += got;
    }
    return end_ >= count;
}

inline uint64_t Machine::number(size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, buffer_.data() + at_, sizeof value);  // little-endian, as pickles are
    at_ += bytes;
    if (bytes == 0) return 0;
    return value & (~uint64_t{0} >> (8 * (sizeof value - bytes)));
}

bool Machine::fail(const char* why) {
    if (damage_.empty() && refused_.empty()) damage_ = why;
    return false;
}

bool Machine::refuse(const char* what) {
    refused_ = what;
    return false;
}

inline bool Machine::push(Value value) {
    if (stack_.size() >= kMostStack) return refuse("it holds more at once than any pickle does");
    stack_.push_back(value);
    return true;
}

bool Machine::pop_mark(size_t& first) {
    if (marks_.empty() || marks_.back() > stack_.size()) return fail("a mark is missing");
    first = marks_.back();
    marks_.pop_back();
    return true;
}

bool Machine::take_text(uint64_t size, bool is_text) {
    text_.clear();
    uint64_t left = size;
    while (left > 0) {
        if (at_ == end_ && !fill(1)) return fail("it ends in a text");
        const size_t piece = static_cast<size_t>(std::min<uint64_t>(left, end_ - at_));
        if (is_text && text_.size() < kMostText) {
            text_.append(buffer_.data() + at_, std::min<size_t>(piece, kMostText - text_.size()));
        }
        at_ += piece;
        left -= piece;
    }
    if (!is_text) return push(kBytes);
    if (size > kMostText) ++shortened_;
    return push(make_value(Tag::text, objects_.texts.intern(text_)));
}

bool Machine::take_long(uint64_t size) {
    // Of a number without a sign the last byte is 0: an address from 2^63 on. Its 64 bits are kept.
    if (size > 8 && size != 9) {  // no number of a snapshot has more
        if (!take_text(size, false)) return false;
        stack_.back() = kNone;
        return true;
    }
    if (size == 9) {
        if (!fill(size)) return fail(kEndsInNumber);
        const auto bits = static_cast<int64_t>(number(8));
        return push(number(1) == 0 ? objects_.add_wide(bits, false) : kNone);
    }
    if (!fill(size)) return fail(kEndsInNumber);
    uint64_t value = number(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0) value |= ~uint64_t{0} << (8 * size);
    const auto integer = static_cast<int64_t>(value);
    return push(fits_payload(integer) ? make_value(Tag::integer, value)
                                      : objects_.add_wide(integer, false));
}

bool Machine::take_constant(uint8_t opcode) {
    switch (opcode) {
        case NONE: return push(kNone);
        case NEWTRUE: return push(kTrue);
        default: return push(kFalse);
    }
}

bool Machine::take_number(uint8_t opcode) {
    const size_t size = opcode == BININT1 || opcode == LONG1 ? 1
                        : opcode == BININT2                  ? 2
                        : opcode == BINFLOAT                 ? 8
                                                             : 4;
    if (!fill(size)) return fail(kEndsInNumber);
    if (opcode == BINFLOAT) {
        const uint64_t bits = __builtin_bswap64(number(8));  // floats are big-endian
        return push(objects_.add_wide(static_cast<int64_t>(bits), true));
    }
    const uint64_t value = number(size);
    if (opcode == LONG1 || opcode == LONG4) return take_long(value);
    if (opcode == BININT) {
        return push(make_value(Tag::integer, static_cast<uint64_t>(
                                                 int64_t{static_cast<int32_t>(value)})));
    }
    return push(make_value(Tag::integer, value));
}

bool Machine::take_string(uint8_t opcode) {
    const bool is_short = opcode == SHORT_BINUNICODE || opcode == SHORT_BINSTRING ||
                          opcode == SHORT_BINBYTES;
    const bool is_long = opcode == BINUNICODE8 || opcode == BINBYTES8 || opcode == BYTEARRAY8;
    const size_t size = is_short ? 1 : is_long ? 8 : 4;
    if (!fill(size)) return fail("it ends in a text");
    const bool is_text = opcode == BINUNICODE || opcode == SHORT_BINUNICODE ||
                         opcode == BINUNICODE8 || opcode == BINSTRING || opcode == SHORT_BINSTRING;
    return take_text(number(size), is_text);
}

bool Machine::extend(size_t list, size_t first) {
    if (tag_of(stack_[list]) != Tag::list) return fail("items are put into something else");
    objects_.extend(stack_[list], stack_.data() + first, stack_.size() - first);
    stack_.resize(list + 1);
    return true;
}

bool Machine::update(size_t dict, size_t first) {
    const size_t count = stack_.size() - first;
    if (tag_of(stack_[dict]) != Tag::dict || count % 2 != 0) {
        return fail("keys are put into something else");
    }
    objects_.update(stack_[dict], stack_.data() + first, count / 2);
    stack_.resize(dict + 1);
    return true;
}

bool Machine::tuple(size_t first) {
    const Value made = objects_.add_tuple(stack_.data() + first, stack_.size() - first);
    stack_.resize(first);
    return push(made);
}

bool Machine::take_container(uint8_t opcode) {
    if (objects_.count() + objects_.items() / 2 >
        kFreeObjects + position() / kBytesPerObject) {
        return refuse("it holds far more objects for its size than a snapshot");
    }
    size_t first = 0;
    const size_t size = stack_.size(), floor = marks_.empty() ? 0 : marks_.back();
    const auto has = [&](size_t count) { return size >= floor + count; };
    switch (opcode) {
        case EMPTY_DICT: return push(objects_.add_dict());
        case EMPTY_LIST:
        case EMPTY_SET: return push(objects_.add_list());
        case EMPTY_TUPLE: return push(make_value(Tag::tuple, Objects::kEmpty));
        case TUPLE1:
        case TUPLE2:
        case TUPLE3: {
            const size_t count = opcode - TUPLE1 + 1;
            return has(count) ? tuple(size - count) : fail("a value is missing");
        }
        case APPEND: return has(2) ? extend(size - 2, size - 1) : fail("a value is missing");
        case SETITEM: return has(3) ? update(size - 3, size - 2) : fail("a value is missing");
        case FROZENSET:
        case TUPLE: return pop_mark(first) && tuple(first);
        case LIST:
        case DICT: {
            if (!pop_mark(first)) return false;
            const Value made = opcode == LIST ? objects_.add_list() : objects_.add_dict();
            stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first), made);
            return opcode == LIST ? extend(first, first + 1) : update(first, first + 1);
        }
        default:
            if (!pop_mark(first)) return false;
            if (first == 0 || (!marks_.empty() && first - 1 < marks_.back())) {
                return fail("a value is missing");
            }
            return opcode == SETITEMS ? update(first - 1, first) : extend(first - 1, first);
    }
}

inline bool Machine::remember(uint64_t place) {
    if (stack_.empty()) return fail("a value is missing");
    // Picklers count places up from 0.
    if (place > memo_.size()) return fail("a place of the memo is skipped");
    if (place == memo_.size()) {
        memo_.push_back(stack_.back());
    } else {
        memo_[place] = stack_.back();
    }
    return true;
}

inline bool Machine::recall(uint64_t place) {
    return place < memo_.size() ? push(memo_[place]) : fail("a place of the memo is empty");
}

bool Machine::step() {
    if (end_ - at_ < kLongestOpcode && !fill(kLongestOpcode) && at_ == end_) {
        return fail(source_->early_end.empty() ? "it ends early" : source_->early_end.c_str());
    }
    const auto opcode = static_cast<uint8_t>(buffer_[at_++]);
    switch (opcode) {
        // Three of four opcodes of a snapshot are of these: no calls, and sizes that are constant.
        case BINGET: return fill(1) ? recall(number(1)) : fail(kEndsInNumber);
        case LONG_BINGET: return fill(4) ? recall(number(4)) : fail(kEndsInNumber);
        case BINPUT: return fill(1) ? remember(number(1)) : fail(kEndsInNumber);
        case LONG_BINPUT: return fill(4) ? remember(number(4)) : fail(kEndsInNumber);
        case MEMOIZE: return remember(memo_.size());
        case MARK:
            if (marks_.size() >= kMostMarks) return refuse("it is nested deeper than any snapshot");
            marks_.push_back(stack_.size());
            return true;
        case NONE:
        case NEWTRUE:
        case NEWFALSE: return take_constant(opcode);
        case BININT:
        case BININT1:
        case BININT2:
        case BINFLOAT:
        case LONG1:
        case LONG4: return take_number(opcode);
        case BINUNICODE:
        case SHORT_BINUNICODE:
        case BINUNICODE8:
        case BINSTRING:
        case SHORT_BINSTRING:
        case BINBYTES:
        case SHORT_BINBYTES:
        case BINBYTES8:
        case BYTEARRAY8: return take_string(opcode);
        case EMPTY_DICT:
        case EMPTY_LIST:
        case EMPTY_SET:
        case EMPTY_TUPLE:
        case TUPLE:
        case TUPLE1:
        case TUPLE2:
        case TUPLE3:
        case FROZENSET:
        case LIST:
        case DICT:
        case APPEND:
        case APPENDS:
        case ADDITEMS:
        case SETITEM:
        case SETITEMS: return take_container(opcode);
        case PROTO: return fill(1) ? (++at_, true) : fail("it ends early");
        case FRAME: return fill(8) ? (at_ += 8, true) : fail("it ends early");
        case DUP: return stack_.empty() ? fail("a value is missing") : push(stack_.back());
        case POP:
            if (stack_.empty()) return fail("a value is missing");
            if (!marks_.empty() && marks_.back() == stack_.size()) {
                marks_.pop_back();
            } else {
                stack_.pop_back();
            }
            return true;
        case POP_MARK: {
            size_t first = 0;
            if (!pop_mark(first)) return false;
            stack_.resize(first);
            return true;
        }
        case STOP:
            if (stack_.empty()) return fail("a value is missing");
            finish(stack_.back());
            return false;
        case 'c':
        case 0x93: return refuse("it names something to import (GLOBAL)");
        case 'R':
        case 'b':
        case 'i':
        case 'o':
        case 0x81:
        case 0x92: return refuse("it would call or build something (REDUCE, BUILD, NEWOBJ)");
        case 0x82:
        case 0x83:
        case 0x84: return refuse("it names something to import (EXT)");
        case 'P':
        case 'Q': return refuse("it refers to something outside of it (PERSID)");
        case 0x97:
        case 0x98: return refuse("parts of it are outside of it (NEXT_BUFFER)");
        case 'I':
        case 'L':
        case 'F':
        case 'S':
        case 'V':
        case 'g':
        case 'p': return refuse("it is of protocol 0, which no PyTorch writes");
        default: return fail("an unknown opcode");
    }
}

void Machine::finish(Value root) {
    root_ = root;
    done_ = true;
    stack_ = {};
    marks_ = {};
    memo_ = {};
    taken_ += at_;
    buffer_ = {};
    at_ = end_ = 0;
}

// Closes what is open, as if the missing opcodes were there.
void Machine::fold() {
    while (!stack_.empty()) {
        const size_t first = marks_.empty() ? 0 : std::min(marks_.back(), stack_.size());
        if (marks_.empty()) {
            const Value last = fold_chain(0);
            finish(last);
            return;
        }
        marks_.pop_back();
        const Value target = first > 0 ? stack_[first - 1] : kNone;
        if (tag_of(target) == Tag::dict) {
            // A value that is being filled by single items stands where the next key should.
            size_t at = first;
            while (at < stack_.size() && tag_of(stack_[at]) == Tag::text) at += 2;
            if (at > first && at < stack_.size()) fold_chain(at - 1);
            if ((stack_.size() - first) % 2 != 0) stack_.pop_back();
            update(first - 1, first);
        } else if (tag_of(target) == Tag::list) {
            extend(first - 1, first);
        } else {
            stack_.resize(first);
        }
    }
    finish(kNone);
}

// Of values that are each filled by the one above: the first, which stays on the stack.
Value Machine::fold_chain(size_t first) {
    while (stack_.size() > first + 1) {
        const size_t last = stack_.size() - 1;
        if (tag_of(stack_[last - 1]) == Tag::list) {
            extend(last - 1, last);
        } else if (last >= first + 2 && tag_of(stack_[last - 2]) == Tag::dict) {
            update(last - 2, last - 1);
        } else {
            stack_.pop_back();
        }
    }
    return stack_.empty() ? kNone : stack_.back();
}

}  // namespace sightline
