// Gives out the finished tables as Arrow batches of any number of rows.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "columns/arrow.h"
#include "kineto/finish.h"

namespace sightline {

class Output {
public:
    // Direction and memory kinds of a copy, by the code of its texts; empty stands for null.
    using Copies = std::unordered_map<uint32_t, std::array<std::string, 3>>;

    Output(Finished& finished, const Copies& copies);

    size_t rows(const std::string& table) const;
    Batch take(const std::string& table, size_t from, size_t count) const;

    // The operations of these kernels that have a launch: device_op_id and launch_id.
    Batch launches_of(const std::vector<uint32_t>& names) const;

private:
    class Builder;

    TableId id_of(const std::string& table) const;
    void host(Builder& out) const;
    void device(Builder& out) const;
    void others(Builder& out, TableId id) const;
    void collectives(Builder& out) const;

    Finished& done_;
    std::vector<View> views_;  // of each code; the first is the null's
    std::array<uint32_t, 8> layers_{};
    std::array<uint32_t, 5> kinds_{};
    std::unordered_map<uint32_t, std::array<uint32_t, 3>> copies_;
    std::vector<int64_t> text_sizes_;
};

}  // namespace sightline
