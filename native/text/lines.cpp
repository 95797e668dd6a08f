#include "text/lines.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "columns/numbers.h"
#include "columns/texts.h"

namespace sightline {

namespace {

constexpr size_t kMostDigits = 18;
// Ends of texts that are tried on a line before it is left to Python.
constexpr size_t kMostTries = 256;
constexpr size_t kLongestLine = 64 << 10;  // of longer ones the tries would take too long

using Characters = std::array<bool, 256>;

Characters characters_of(std::string_view some, bool letters) {
    Characters table{};
    for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = true;
    for (int c = 'a'; letters && c <= 'z'; ++c) {
        table[static_cast<size_t>(c)] = table[static_cast<size_t>(c - 'a' + 'A')] = true;
    }
    for (const char c : some) table[static_cast<unsigned char>(c)] = true;
    return table;
}

const Characters kWord = characters_of("_", true);
const Characters kNumber = characters_of("+-.eEInfNa", false);

// The end of the run of such characters.
size_t end_of(const Characters& characters, std::string_view line, size_t at) {
    while (at < line.size() && characters[static_cast<unsigned char>(line[at])]) ++at;
    return at;
}

// Whether no byte would break a line for Python, or is more than one character of it.
bool is_plain(std::string_view line) {
    bool odd = false;
    for (const char c : line) odd |= static_cast<signed char>(c) < ' ' && c != '\t';
    return !odd;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool starts_with(std::string_view line, size_t at, std::string_view literal) {
    return line.size() - at >= literal.size() &&
           std::memcmp(line.data() + at, literal.data(), literal.size()) == 0;
}

}  // namespace

LineTables::LineTables(std::vector<std::vector<LinePart>> patterns) {
    for (auto& parts : patterns) {
        Table table;
        for (const LinePart& part : parts) {
            table.field_of.push_back(table.fields.size());
            if (!part.has_field || part.kind == FieldKind::any) continue;
            table.fields.emplace_back();
            table.fields.back().name = part.name;
            table.fields.back().kind = part.kind;
        }
        table.parts = std::move(parts);
        tables_.push_back(std::move(table));
    }
}

void LineTables::read(std::string_view data) {
    int64_t number = 0;
    size_t likely = 0;
    for (size_t at = 0; at < data.size(); ++number) {
        const void* found = std::memchr(data.data() + at, '\n', data.size() - at);
        const size_t end = found == nullptr
                               ? data.size()
                               : static_cast<size_t>(static_cast<const char*>(found) - data.data());
        std::string_view line = data.substr(at, end - at);
        at = end + 1;
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        bool is_kept = false;
        if (line.size() <= kLongestLine && is_plain(line)) {
            // Lines of one pattern mostly follow each other; no line follows two.
            for (size_t i = 0; i < tables_.size() && !is_kept; ++i) {
                Table& table = tables_[(likely + i) % tables_.size()];
                tries_ = 0;
                found_.resize(table.parts.size());
                if (!fits(table, 0, line, 0)) continue;
                keep(table, number);
                likely = (likely + i) % tables_.size();
                is_kept = true;
            }
        }
        if (is_kept || std::all_of(line.begin(), line.end(), is_blank)) continue;
        rest_lines_.push_back(number);
        rest_.push_back(line);
    }
}

bool LineTables::fits(const Table& table, size_t part, std::string_view line, size_t at) {
    for (; part < table.parts.size(); ++part) {
        const LinePart& here = table.parts[part];
        if (!starts_with(line, at, here.literal)) return false;
        at += here.literal.size();
        if (!here.has_field) continue;
        size_t end = at;
        switch (here.kind) {
            case FieldKind::integer:
                while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
                if (end - at > kMostDigits) return false;
                break;
            case FieldKind::word: end = end_of(kWord, line, at); break;
            case FieldKind::number: end = end_of(kNumber, line, at); break;
            case FieldKind::cell:
                end = std::min(line.find(',', at), line.size());
                if (end > at && (is_blank(line[at]) || is_blank(line[end - 1]))) return false;
                break;
            default: return fits_text(table, part, line, at);
        }
        if (end == at) return false;
        found_[part] = line.substr(at, end - at);
        at = end;
    }
    return at == line.size();
}

// A text ends where the next literal begins; a free one at the first place from which the rest fits.
bool LineTables::fits_text(const Table& table, size_t part, std::string_view line, size_t at) {
    const FieldKind kind = table.parts[part].kind;
    const size_t least = kind == FieldKind::any ? 0 : 1;
    if (line.size() - at < least) return false;
    if (part + 1 == table.parts.size()) {
        found_[part] = line.substr(at);
        return true;
    }
    const std::string& next = table.parts[part + 1].literal;
    for (size_t end = line.find(next, at + least); end != std::string_view::npos;
         end = line.find(next, end + 1)) {
        if (++tries_ > kMostTries) return false;
        found_[part] = line.substr(at, end - at);
        if (fits(table, part + 1, line, end)) return true;
        if (kind == FieldKind::text) return false;
    }
    return false;
}

void LineTables::keep(Table& table, int64_t number) {
    table.lines.push_back(number);
    for (size_t part = 0; part < table.parts.size(); ++part) {
        if (!table.parts[part].has_field || table.parts[part].kind == FieldKind::any) continue;
        Field& field = table.fields[table.field_of[part]];
        const std::string_view text = found_[part];
        if (field.kind == FieldKind::integer) {
            field.numbers.push_back(to_int(text));
        } else if (!field.codes.empty() && field.last == text) {
            field.codes.push_back(field.codes.back());
        } else {
            field.codes.push_back(field.texts.intern(text) - 1);
            field.last = text;
        }
    }
}

Batch LineTables::take(size_t pattern) {
    Table& table = tables_.at(pattern);
    Batch batch;
    batch.rows = static_cast<int64_t>(table.lines.size());
    batch.columns.push_back(numbers_column("line", std::exchange(table.lines, {})));
    for (Field& field : table.fields) {
        const char* name = field.name.c_str();
        batch.columns.push_back(field.kind == FieldKind::integer
                                    ? numbers_column(name, std::exchange(field.numbers, {}))
                                    : rows_column(name, std::exchange(field.codes, {})));
    }
    return batch;
}

std::vector<std::string> LineTables::text_fields(size_t pattern) const {
    std::vector<std::string> names;
    for (const Field& field : tables_.at(pattern).fields) {
        if (field.kind != FieldKind::integer) names.push_back(field.name);
    }
    return names;
}

Batch LineTables::texts(size_t pattern, size_t field) const {
    for (const Field& one : tables_.at(pattern).fields) {
        if (one.kind != FieldKind::integer && field-- == 0) return all_texts(one.texts, "vu");
    }
    return {};
}

Batch LineTables::rest() {
    auto block = std::make_shared<std::vector<char>>();
    size_t size = 0;
    for (const std::string_view line : rest_) size += line.size();
    block->reserve(size);
    auto views = std::make_shared<std::vector<View>>(rest_.size());
    for (size_t i = 0; i < rest_.size(); ++i) {
        View& view = (*views)[i];
        view.length = static_cast<int32_t>(rest_[i].size());
        if (rest_[i].size() <= sizeof view.bytes) {
            std::memcpy(view.bytes, rest_[i].data(), rest_[i].size());
            continue;
        }
        const auto offset = static_cast<uint32_t>(block->size());
        block->insert(block->end(), rest_[i].begin(), rest_[i].end());
        std::memcpy(view.bytes, rest_[i].data(), 4);
        std::memcpy(view.bytes + 8, &offset, 4);  // of block 0
    }
    auto column = std::make_shared<BatchColumn>();
    column->name = "text";
    column->format = "vz";
    column->data = views->data();
    column->values = std::move(views);
    column->text_sizes = {static_cast<int64_t>(block->size())};
    column->texts = {std::move(block)};
    Batch batch;
    batch.rows = static_cast<int64_t>(rest_lines_.size());
    batch.columns = {numbers_column("line", std::exchange(rest_lines_, {})), std::move(column)};
    return batch;
}

}  // namespace sightline
