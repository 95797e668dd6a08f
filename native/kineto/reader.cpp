#include "kineto/reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "kineto/event.h"

namespace sightline {

namespace {

constexpr size_t kSmallestPiece = 4 << 10;  // behind an event that was refused
constexpr size_t kLongItem = 16 << 20;      // an item longer than this is left to Python
constexpr size_t kLongCareful = 256 << 10;   // the same behind one that was refused
constexpr size_t kShortCareful = 16 << 10;   // the same where that has been in vain too often:
constexpr size_t kFreeLooks = 16 << 20;      // bytes looked at in vain, and as many times the bytes
constexpr size_t kLooksPerByte = 4;          // that were read, so that time stays in proportion
constexpr size_t kKeptParser = 8 << 20;     // a parser that grew beyond it is given back

// The length of the blank or comma at the front, 0 where there is none: what Python's \s matches,
// commas, and byte order marks.
size_t blank_at(const char* bytes, size_t size) {
    const auto c = static_cast<unsigned char>(bytes[0]);
    if (c == ' ' || c == ',' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) return 1;
    if (size >= 2 && c == 0xc2) {
        const auto d = static_cast<unsigned char>(bytes[1]);
        return d == 0x85 || d == 0xa0 ? 2 : 0;
    }
    if (size < 3 || (c != 0xe1 && c != 0xe2 && c != 0xe3 && c != 0xef)) return 0;
    const std::string_view three(bytes, 3);
    if (three == "\xef\xbb\xbf" || three == "\xe1\x9a\x80" || three == "\xe3\x80\x80") return 3;
    if (three.substr(0, 2) == "\xe2\x80") {
        const auto e = static_cast<unsigned char>(bytes[2]);
        return (e >= 0x80 && e <= 0x8a) || e == 0xa8 || e == 0xa9 || e == 0xaf ? 3 : 0;
    }
    return three == "\xe2\x81\x9f" ? 3 : 0;
}

// One event after the other of '[...]' with padding. Events that are not refused become rows.
void parse(simdjson::ondemand::parser& parser, const char* bytes, size_t size, size_t capacity,
           bool trusted, Piece& piece) {
    piece.rows = std::make_unique<ChunkRows>();
    EventReader events(*piece.rows, trusted);
    simdjson::ondemand::document document;
    simdjson::ondemand::array items;
    const char* const end = bytes + size;
    piece.refused = true;
    if (parser.iterate(bytes, size, capacity).get(document) != simdjson::SUCCESS ||
        document.get_array().get(items) != simdjson::SUCCESS) {
        return;
    }
    // Where reading would go on: at the item that was refused, or behind the one before it.
    std::string_view last;
    for (auto item : items) {
        simdjson::ondemand::value value;
        if (std::move(item).get(value) != simdjson::SUCCESS) {
            if (piece.items != 0) {
                // The item before was whole; what stands behind it is not.
                const bool plain = last[0] != '{' && last[0] != '[';
                const char* const from = last.data();
                const size_t size_left = static_cast<size_t>(end - from);
                const size_t length = plain ? last.size() : end_of_value(from, size_left);
                piece.refused_at = static_cast<size_t>(from - bytes) + length - 1;
            }
            return;
        }
        last = value.raw_json_token();
        if (!events.add(value, end)) {
            piece.refused_at = static_cast<size_t>(last.data() - bytes) - 1;
            return;
        }
        ++piece.items;
    }
    piece.refused = false;
}

}  // namespace

Reader::Reader(const std::string& path, const std::string& folder, unsigned threads,
               size_t piece_bytes)
    : tables(folder),
      ahead_(open_source(path)),
      largest_piece_(piece_bytes),
      piece_bytes_(piece_bytes) {
    for (unsigned i = 0; i < std::max(threads, 1u); ++i) {
        workers_.emplace_back([this] { work(); });
    }
}

Reader::~Reader() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    to_do_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void Reader::work() {
    auto parser = std::make_unique<simdjson::ondemand::parser>();
    for (;;) {
        std::shared_ptr<Piece> piece;
        {
            std::unique_lock lock(mutex_);
            to_do_.wait(lock, [this] { return stop_ || !queue_.empty(); });
            if (stop_) return;
            piece = std::move(queue_.front());
            queue_.pop_front();
        }
        try {
            if (parser->capacity() > kKeptParser) {
                parser = std::make_unique<simdjson::ondemand::parser>();
            }
            parse(*parser, piece->bytes.data(), piece->size + 2, piece->bytes.size(), false, *piece);
        } catch (...) {
            piece->error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        piece->done = true;
        done_.notify_all();
    }
}

void Reader::submit(const std::shared_ptr<Piece>& piece) {
    in_flight_.push_back(piece);
    const std::lock_guard lock(mutex_);
    queue_.push_back(piece);
    to_do_.notify_one();
}

void Reader::wait(Piece& piece) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return piece.done; });
}

// Pieces behind a refused event may be cut wrongly: they are cut anew.
void Reader::drop_the_rest() {
    {
        const std::lock_guard lock(mutex_);
        for (const auto& waiting : queue_) waiting->done = true;
        queue_.clear();
    }
    for (const auto& piece : in_flight_) wait(*piece);
    in_flight_.clear();
}

bool Reader::more() {
    if (ended_) return false;
    block_ = ahead_.next(std::move(block_));
    ended_ = block_.empty();
    held_.insert(held_.end(), block_.begin(), block_.end());
    return !ended_;
}

void Reader::release() {
    const size_t unused = position_ - held_from_;
    if (unused < (4 << 20) || unused * 2 < held_.size()) return;
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(unused));
    held_from_ = position_;
}

// Moves `cut_at_` to the next item; says whether there is one.
Reader::Cut Reader::skip_blanks() {
    const size_t begin = cut_at_;
    for (;;) {
        while (held_end() - cut_at_ >= 3 || (ended_ && cut_at_ < held_end())) {
            const size_t length = blank_at(at(cut_at_), held_end() - cut_at_);
            if (length == 0) return Cut::piece;
            cut_at_ += length;
        }
        if (ended_) return Cut::end;
        if (!in_flight_.empty()) {
            if (cut_at_ - begin > largest_piece_) return Cut::later;
        } else {
            position_ = cut_at_;
            release();
        }
        more();
    }
}

Reader::Cut Reader::cut(std::shared_ptr<Piece>& piece) {
    const Cut next = skip_blanks();
    if (next != Cut::piece) return next;
    if (*at(cut_at_) == ']') return Cut::array_end;
    const size_t begin = cut_at_;
    const bool careful = piece_bytes_ < largest_piece_;
    const bool is_patient = in_vain_ <= kFreeLooks + kLooksPerByte * begin;
    const size_t longest =
        careful ? piece_bytes_ + (is_patient ? kLongCareful : kShortCareful) : kLongItem;
    scanner_.restart(begin - held_from_);
    size_t end = 0;
    for (;;) {
        const size_t before = held_from_;
        const size_t size = std::min(held_.size(), begin - before + longest);
        const bool is_all = size == held_.size();
        const auto found =
            scanner_.scan(held_.data(), size, begin - before + piece_bytes_, ended_ && is_all);
        if (found == BoundaryScanner::Found::boundary) {
            end = before + scanner_.last_boundary();
            break;
        }
        if (found == BoundaryScanner::Found::array_end) {
            end = before + scanner_.array_end();
            break;
        }
        if (!is_all || before + held_.size() - begin >= longest || !more()) {
            end = before + scanner_.last_boundary();
            break;
        }
    }
    if (end == begin) {
        in_vain_ += held_from_ + scanner_.position() - begin;
        return Cut::refused;
    }
    piece = std::make_shared<Piece>();
    piece->begin = begin;
    piece->size = end - begin;
    if (!spares_.empty()) {
        piece->bytes = std::move(spares_.back());
        spares_.pop_back();
    }
    piece->bytes.resize(piece->size + 2 + simdjson::SIMDJSON_PADDING);
    piece->bytes[0] = '[';
    std::memcpy(piece->bytes.data() + 1, at(begin), piece->size);
    piece->bytes[piece->size + 1] = ']';
    cut_at_ = end;
    return Cut::piece;
}

Reader::Stop Reader::events(size_t budget) {
    const size_t until = position_ + budget;
    const size_t most = workers_.size() + 2;
    if (in_flight_.empty()) cut_at_ = position_;
    for (;;) {
        Cut last = Cut::piece;
        while (in_flight_.size() < most && last == Cut::piece) {
            std::shared_ptr<Piece> piece;
            last = cut(piece);
            if (last == Cut::piece) submit(piece);
            // One at a time where more would most likely be cut in vain.
            if (piece_bytes_ < largest_piece_ / 8) break;
        }
        if (in_flight_.empty()) {
            position_ = cut_at_;
            release();
            switch (last) {
                case Cut::array_end: advance(1); return Stop::array_end;
                case Cut::end: return Stop::end;
                default: piece_bytes_ = kSmallestPiece; return Stop::refused;
            }
        }
        const std::shared_ptr<Piece> piece = std::move(in_flight_.front());
        in_flight_.pop_front();
        wait(*piece);
        if (piece->error != nullptr) {
            drop_the_rest();
            std::rethrow_exception(piece->error);
        }
        if (piece->rows != nullptr) tables.append(*piece->rows);
        if (piece->refused) {
            drop_the_rest();
            position_ = cut_at_ = piece->begin + piece->refused_at;
            piece_bytes_ = kSmallestPiece;
            if (piece->items == 0) return Stop::refused;
            continue;
        }
        position_ = piece->begin + piece->size;
        if (piece->bytes.size() < 2 * largest_piece_) spares_.push_back(std::move(piece->bytes));
        piece_bytes_ = std::min(largest_piece_, piece_bytes_ * 2);
        release();
        if (position_ >= until) return Stop::paused;
    }
}

std::string_view Reader::window(size_t size) {
    release();
    while (held_end() - position_ < size && more()) {
    }
    return {at(position_), std::min(size, held_end() - position_)};
}

void Reader::advance(size_t count) {
    position_ += std::min(count, held_end() - position_);
    cut_at_ = position_;
}

bool Reader::add(std::string_view event) {
    Piece piece;
    piece.size = event.size();
    piece.bytes.resize(event.size() + 2 + simdjson::SIMDJSON_PADDING);
    piece.bytes[0] = '[';
    std::memcpy(piece.bytes.data() + 1, event.data(), event.size());
    piece.bytes[event.size() + 1] = ']';
    simdjson::ondemand::parser parser;
    parse(parser, piece.bytes.data(), piece.size + 2, piece.bytes.size(), true, piece);
    if (piece.refused) return false;
    tables.append(*piece.rows);
    return true;
}

std::string Reader::early_end() { return ended_ ? ahead_.source().early_end : std::string(); }

}  // namespace sightline
