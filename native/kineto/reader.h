// Reads the events of a trace: cuts the bytes into pieces, parses them on all cores, and collects
// the rows in file order. What it holds besides rows is bounded by the pieces in flight.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kineto/boundaries.h"
#include "kineto/source.h"
#include "kineto/tables.h"

namespace sightline {

// A piece of the events array, '[' and ']' around it and padding behind it; and what it gave.
struct Piece {
    size_t begin = 0;  // offset in the decompressed bytes
    size_t size = 0;
    std::vector<char> bytes;
    std::unique_ptr<ChunkRows> rows;
    bool refused = false;   // an event could not be read,
    size_t refused_at = 0;  // the one that starts at this offset in the piece
    size_t items = 0;       // items that were read before that
    std::exception_ptr error;
    bool done = false;
};

class Reader {
public:
    // Why `events` returned.
    enum class Stop : uint8_t { paused, array_end, refused, end };

    Reader(const std::string& path, const std::string& folder, unsigned threads,
           size_t piece_bytes);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Reads events from the position on, which must be inside the array; pauses after `budget`
    // bytes. `refused`: the value at the position is not for this reader; `window` shows it, `add`
    // takes what Python made of it, `advance` goes past it.
    Stop events(size_t budget);

    // Up to `size` bytes from the position on; fewer only at the end of the file. Not while paused.
    std::string_view window(size_t size);
    void advance(size_t count);
    size_t position() const { return position_; }

    // Reads one event that Python has judged. False where it is refused still.
    bool add(std::string_view event);

    uint64_t stored() const { return ahead_.source().stored; }
    std::string early_end();

    Tables tables;

private:
    // `later`: not before the pieces in flight are done, as the bytes between are held until then.
    enum class Cut : uint8_t { piece, later, array_end, refused, end };

    bool more();
    Cut cut(std::shared_ptr<Piece>& piece);
    Cut skip_blanks();
    void work();
    void submit(const std::shared_ptr<Piece>& piece);
    void wait(Piece& piece);
    void drop_the_rest();
    void release();
    const char* at(size_t offset) const { return held_.data() + (offset - held_from_); }
    size_t held_end() const { return held_from_ + held_.size(); }

    ReadAhead ahead_;
    const size_t largest_piece_;
    size_t piece_bytes_;
    std::vector<char> block_;                // the last bytes that were read
    std::vector<std::vector<char>> spares_;  // buffers of pieces that are done
    std::vector<char> held_;  // bytes from `held_from_` on, which may be needed again
    size_t held_from_ = 0;
    bool ended_ = false;
    size_t position_ = 0;  // all before it has become rows
    size_t cut_at_ = 0;    // all before it has become pieces
    size_t in_vain_ = 0;   // bytes that were looked at for the end of items that have none
    BoundaryScanner scanner_;
    std::deque<std::shared_ptr<Piece>> in_flight_;

    std::mutex mutex_;
    std::condition_variable to_do_, done_;
    std::deque<std::shared_ptr<Piece>> queue_;
    bool stop_ = false;
    std::vector<std::thread> workers_;
};

}  // namespace sightline
