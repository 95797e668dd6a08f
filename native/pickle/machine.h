// Reads the plain data of a pickle: nothing is imported, called or built.
// The opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kineto/source.h"
#include "pickle/objects.h"

namespace sightline {

// Of protocols 2 to 5. A file that is damaged or ends early is read as far as it goes; one that
// names anything to import or call is refused.
class Machine {
public:
    // Throws std::system_error where the file cannot be opened or read.
    explicit Machine(const std::string& path);

    // Reads on until about so many bytes more are read. False at the end.
    bool read(uint64_t budget);

    // What the pickle holds, when read() has come to the end.
    Value root() const { return root_; }
    Objects& objects() { return objects_; }

    uint64_t position() const { return taken_ + at_; }
    uint64_t stored() const { return source_->stored; }
    // Why it is refused: what it would import or call, or that it is no plain data.
    const std::string& refused() const { return refused_; }
    // Why it ends early; empty where it does not.
    const std::string& damage() const { return damage_; }
    // Texts of which only the beginning is kept.
    uint64_t shortened() const { return shortened_; }

private:
    bool step();
    bool fill(size_t count);
    bool fill_more(size_t count);
    uint64_t number(size_t bytes);
    bool take_text(uint64_t size, bool is_text);
    bool take_long(uint64_t size);
    bool take_constant(uint8_t opcode);
    bool take_number(uint8_t opcode);
    bool take_string(uint8_t opcode);
    bool take_container(uint8_t opcode);
    bool remember(uint64_t place);
    bool recall(uint64_t place);
    bool push(Value value);
    bool pop_mark(size_t& first);
    bool extend(size_t list, size_t first);
    bool update(size_t dict, size_t first);
    bool tuple(size_t first);
    bool fail(const char* why);
    bool refuse(const char* what);
    void finish(Value root);
    void fold();
    Value fold_chain(size_t first);

    std::unique_ptr<Source> source_;
    std::vector<char> buffer_;
    size_t at_ = 0, end_ = 0;
    uint64_t taken_ = 0;  // bytes before the buffer
    bool ended_ = false;  // the source has no more

    Objects objects_;
    std::vector<Value> stack_;
    std::vector<size_t> marks_;
    Chunked<Value> memo_;
    Value root_ = kNone;
    std::string text_;
    std::string refused_, damage_;
    uint64_t shortened_ = 0;
    bool done_ = false;
};

}  // namespace sightline
