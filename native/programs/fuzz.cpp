// Mutates traces, SQLite files and the events of reports, and reads them: `sightline-fuzz SECONDS SEED FILE...`. Built with
// sanitizers, any crash, hang or broken invariant ends it with the input left in fuzz-failed.
#include <lz4.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kineto/finish.h"
#include "columns/numbers.h"
#include "columns/texts.h"
#include "ctf/streams.h"
#include "json/tables.h"
#include "sqlite/integers.h"
#include "kineto/output.h"
#include "kineto/reader.h"
#include "nsysrep/events.h"
#include "perfetto/trace.h"
#include "stacks/folded.h"
#include "stacks/nodes.h"
#include "text/lines.h"

namespace {

using sightline::Reader;

constexpr size_t kMostBytes = 48 << 10;
constexpr unsigned kMostSeconds = 60;  // for one input

const char* const kTokens[] = {
    "\"", "\\", "\\\"", "\\u", "\\ud800", "{", "}", "[", "]", ",", ":", "null", "NaN", "-Infinity",
    "1e999", "-", "0.5", "1e", "\"ph\":", "\"X\"", "{\"ph\":\"B\",", "{\"ph\":\"E\",", "\"args\":{",
    "\"C\"", "\"Collective name\":", "\"Process Group Ranks\":[", "\"Input Dims\":[[", "\x01",
    "\xff", "\xe2\x80\xa8", "\xef\xbb\xbf", "9223372036854775807", "-9223372036854775808",
    "99999999999999999999999", "traceEvents"};

std::string mutated(std::mt19937_64& random, std::string text) {
    const auto below = [&](size_t limit) { return limit == 0 ? 0 : random() % limit; };
    const size_t changes = size_t{1} << below(6);
    for (size_t i = 0; i < changes && !text.empty(); ++i) {
        const size_t at = below(text.size());
        switch (below(7)) {
            case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
            case 1: text.erase(at, 1 + below(40)); break;
            case 2: text.insert(at, text.substr(below(text.size()), below(300))); break;
            case 3: text.resize(at); break;
            default: text.insert(at, kTokens[below(std::size(kTokens))]); break;
        }
        if (i == 0 && below(3) != 0) break;  // most often one change only
    }
    if (text.size() > kMostBytes) text.resize(kMostBytes);
    return text;
}

void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
}

// Takes a batch over as Polars does, and gives it back.
void take_over(const sightline::Batch& batch) {
    ArrowArrayStream* stream = batch.stream();
    ArrowArray array;
    stream->get_next(stream, &array);
    if (array.release != nullptr) array.release(&array);
    stream->release(stream);
    delete stream;
}

// As Python does, with a plain search in place of its scanner and pattern.
void read_all(Reader& reader) {
    size_t rounds = 0;
    for (;;) {
        const Reader::Stop stop = reader.events(1 << 16);
        if (stop == Reader::Stop::array_end || stop == Reader::Stop::end) break;
        if (stop == Reader::Stop::paused) continue;
        check(++rounds <= 2 * kMostBytes, "reading goes on and on");
        const size_t before = reader.position();
        const std::string_view seen = reader.window(kMostBytes);
        const size_t next = seen.find("{\"ph\"", 1);
        reader.advance(next == std::string_view::npos ? seen.size() : next);
        if (!seen.empty()) check(reader.position() > before, "reading does not move");
    }
}

void finish(Reader& reader, int64_t base) {
    sightline::Tables& tables = reader.tables;
    tables.finish();
    sightline::Finished done(tables, base, {1}, {1, 2});
    const size_t rows = done.order[sightline::kHost].size();
    for (size_t i = 0; i < rows; ++i) {
        check(done.parent[i] == sightline::kNoRow || done.parent[i] < i, "a parent comes first");
        check(done.subtree_end[i] > i && done.subtree_end[i] <= rows, "a subtree ends");
    }
    sightline::Output output(done, {});
    for (const char* table : {"host_ops", "device_ops", "device_ranges", "syncs", "memory_events",
                              "counters", "collectives"}) {
        const size_t all = output.rows(table);
        check(output.take(table, 0, all).rows == static_cast<int64_t>(all), "all rows come");
        ArrowArrayStream* stream = output.take(table, 0, all / 2 + 1).stream();
        ArrowArray array;
        ArrowSchema schema;
        stream->get_schema(stream, &schema);
        stream->get_next(stream, &array);
        if (array.release != nullptr) array.release(&array);
        schema.release(&schema);
        stream->release(stream);
        delete stream;
    }
}

void one(const std::string& text, const std::string& folder, std::mt19937_64& random) {
    const std::string path = folder + "/fuzz-failed";
    std::ofstream(path, std::ios::binary).write(text.data(), static_cast<long>(text.size()));
    alarm(kMostSeconds);
    Reader reader(path, folder, 1 + random() % 2, size_t{64} << random() % 12);
    const std::string_view head = reader.window(kMostBytes);
    const size_t open = head.find('[');
    reader.advance(open == std::string_view::npos ? 0 : open + 1);
    read_all(reader);
    finish(reader, static_cast<int64_t>(random() % 3) << 61);
}

// Bytes and pages of a database changed in place: what is inserted would only move the rest away.
std::string damaged(std::mt19937_64& random, std::string file) {
    const auto below = [&](size_t limit) { return limit == 0 ? 0 : random() % limit; };
    static const unsigned char likely[] = {0, 1, 2, 5, 13, 0x7f, 0x80, 0xff};
    for (size_t changes = size_t{1} << below(7); changes > 0; --changes) {
        // Most often a page's head and its first pointers, where the shape of the tree is.
        const size_t page = below(file.size() / 512) * 512;
        const size_t at = page + below(below(3) == 0 ? 512 : 24);
        file[at] = static_cast<char>(below(2) == 0 ? random() : likely[below(sizeof likely)]);
    }
    if (below(4) == 0) file.resize(1 + below(file.size()));
    return file;
}

void one_database(const std::string& file, const std::string& folder, std::mt19937_64& random) {
    const std::string path = folder + "/fuzz-failed";
    std::ofstream(path, std::ios::binary).write(file.data(), static_cast<long>(file.size()));
    alarm(kMostSeconds);
    const auto root = static_cast<uint32_t>(1 + random() % 6);
    const std::vector<int> columns = {static_cast<int>(random() % 4), sightline::kRowid, 0};
    const auto found = sightline::integers_of(path, {root, columns, 0}, 2);
    if (!found.has_value()) return;
    check(found->constants.size() + found->varying.columns.size() == columns.size(),
          "all columns come");
}

// A field of a message: a number, or bytes with their length before them.
std::string field(unsigned number, size_t value) {
    std::string out;
    for (size_t rest : {size_t{number} << 3, value}) {
        for (; rest > 0x7f; rest >>= 7) out += static_cast<char>(rest | 0x80);
        out += static_cast<char>(rest);
    }
    return out;
}
std::string field(unsigned number, const std::string& bytes) {
    std::string out = field(number, bytes.size());
    out[number < 16 ? 0 : 1] = static_cast<char>(out[number < 16 ? 0 : 1] | (number < 16 ? 2 : 0));
    if (number >= 16) out[0] = static_cast<char>(out[0] | 2);
    return out + bytes;
}

// Events of every form that a plan can have: numbers, a message in a message, texts, chains.
std::string written_events(std::mt19937_64& random) {
    std::string events;
    for (size_t i = 0; i < 1 + random() % 40; ++i) {
        const std::string shape = field(1, i % 5) + field(10, random() >> random() % 64);
        const std::string frame = field(1, i) + field(2, i % 3);
        std::string event = field(1, 79) + field(107, field(1, i) + field(101, shape));
        if (i % 3 == 1) {
            event = field(1, 48) + field(108, field(6, i % 4) + field(15, frame) + field(15, frame));
        }
        if (i % 3 == 2) event = field(1, 59) + field(102, field(7, "text") + field(8, "\x19 12345678"));
        events += field(1, event);
    }
    return events;
}

const std::vector<sightline::TablePlan>& plans() {
    using sightline::ColumnPlan;
    static const std::vector<ColumnPlan> frame = {{"symbol", {{1}}, "number", 0}};
    static const std::vector<sightline::TablePlan> all = {
        {"gpu", 107, {101}, {}, {{"start", {{1}}, "number", 0}, {"x", {{101, 10}, {101, 1}}, "number",
                                                                   sightline::kNull}}, {}},
        {"host", 108, {6}, {0, 1}, {{"chain", {}, "chain", 0}}, {{"chains", {15}, frame}}},
        {"", 108, {6}, {2}, {}, {}},
        {"nvtx", 102, {}, {}, {{"text", {{7}}, "text", sightline::kNull},
                               {"real", {{8, 3}}, "real", sightline::kNull},
                               {"bytes", {{8, 9}}, "bytes", sightline::kNull}}, {}},
    };
    return all;
}

// Damage before packing reaches the events, damage after it the blocks.
void one_report(const std::string& folder, std::mt19937_64& random) {
    std::string file;
    for (size_t block = 0; block < 1 + random() % 3; ++block) {
        std::string events = written_events(random);
        if (random() % 3 != 0) events = mutated(random, events);
        const std::string whole = field(1, events).substr(1);  // without the field's number
        std::string packed(static_cast<size_t>(LZ4_compressBound(static_cast<int>(whole.size()))), 0);
        packed.resize(static_cast<size_t>(
            LZ4_compress_default(whole.data(), packed.data(), static_cast<int>(whole.size()),
                                 static_cast<int>(packed.size()))));
        file += field(1, packed.size()).substr(1) + field(1, whole.size()).substr(1) + packed;
    }
    if (random() % 2 != 0) file = mutated(random, file);
    const std::string path = folder + "/fuzz-failed";
    std::ofstream(path, std::ios::binary).write(file.data(), static_cast<long>(file.size()));
    alarm(kMostSeconds);
    sightline::ReportEvents events(path, random() % 4 == 0 ? random() % 9 : 0, UINT64_MAX,
                                   UINT64_MAX, plans());
    while (events.read(1)) {
    }
    uint64_t taken = events.damaged_events();
    for (const auto& [kind, count] : events.unknown()) taken += count;
    for (const auto& plan : plans()) {
        if (plan.name.empty()) continue;
        std::vector<std::string> names;
        for (const auto& column : plan.columns) names.push_back(column.name);
        if (events.rows(plan.name) == 0) continue;
        const auto found = random() % 2 == 0 ? events.columns(plan.name, names)
                                             : events.take(plan.name, names, names);
        check(found.constants.size() + found.varying.columns.size() == names.size(),
              "all columns come");
        taken += events.rows(plan.name);
    }
    check(taken <= events.events(), "an event is one row at most");
    check(all_texts(events.texts(), "vz").rows == static_cast<int64_t>(events.texts().size()),
          "all texts come");
}

// Packets of every kind that is read, with fields of any number in them, fed in pieces of any size.
void one_trace(std::mt19937_64& random) {
    static const unsigned kinds[] = {1, 2, 6, 11, 12, 43, 44, 52, 53, 54, 59, 60, 66};
    std::string file;
    for (size_t i = 0; i < 1 + random() % 60; ++i) {
        std::string inner;
        for (size_t j = 0; j < random() % 8; ++j) {
            const auto number = static_cast<unsigned>(1 + random() % 60);
            const std::string deep = field(1, random() % 4) + field(2, "text") + field(1 + random() % 30, random() % 9);
            inner += random() % 2 == 0 ? field(number, random() >> random() % 64) : field(number, deep);
        }
        file += field(1, field(8, i) + field(10, random() % 3) + field(13, random() % 3) +
                             field(kinds[random() % std::size(kinds)], inner));
    }
    if (random() % 2 != 0) file = mutated(random, file);
    alarm(kMostSeconds);
    sightline::perfetto::PerfettoTrace trace(1 << 22, 1 << 16);
    const size_t piece = 1 + random() % 300;
    for (size_t at = 0; at < file.size(); at += piece) {
        if (!trace.feed(reinterpret_cast<const uint8_t*>(file.data()) + at,
                        std::min(piece, file.size() - at))) {
            break;
        }
    }
    for (const char* table : {"events", "stages", "tracks", "clocks", "samples", "stacks"}) {
        check(trace.take(table).rows <= static_cast<int64_t>(file.size()), "a row takes a byte");
    }
}

// A plan with every instruction, as formats/system/ctf/plan.py lays them out.
std::vector<int64_t> ctf_plan(std::mt19937_64& random) {
    // op, flags, size, alignment, column, store, from, table, body, first, count
    const std::vector<std::vector<int64_t>> code = {
        {0, 0, 8, 8, -1, 1, -1, 0, 0, 0, 0},          // packet header: stream class
        {0, 0, 32, 8, -1, 3, -1, 0, 0, 0, 0},         // packet context: size, content, time
        {0, 0, 32, 8, -1, 4, -1, 0, 0, 0, 0},
        {0, 8, 27, 1, -1, 5, -1, 0, 0, 0, 0},
        {0, 0, 3, 1, -1, 9, -1, 0, 0, 0, 0},          // event header: class, time
        {0, 8, 13, 1, -1, -1, -1, 0, 0, 0, 0},
        {0, 1, 1 + static_cast<int64_t>(random() % 64), 1, 0, 10, -1, 0, 0, 0, 0},  // payload
        {1, 0, 32, 8, 1, -1, -1, 0, 0, 0, 0},
        {2, 1, 64, 8, 2, 11, -1, 0, 0, 0, 0},
        {3, 0, 0, 8, 3, -1, -1, 0, 0, 0, 0},
        {0, 0, 8, 8, 4, 12, -1, 0, 0, 0, 0},
        {4, 0, 0, 8, 5, -1, 12, 0, 0, 0, 0},
        {5, 16, 0, 8, 6, -1, -1, 0, 0, 0, 3},
        {6, 0, 32, 1, -1, -1, -1, 0, 0, 0, 0},
        {7, 0, 0, 8, 7, -1, 12, 4, 2, 0, 0},          // repeat: a number, and texts in it
        {0, 2, 16, 1, 8, -1, -1, 0, 0, 0, 0},
        {3, 0, 0, 8, 9, -1, -1, 0, 0, 0, 0},
        {8, static_cast<int64_t>(random() % 2 * 32), 0, 1, 10, -1, 12, 0, 2, 0, 2},
        {0, 2, 24, 8, 11, -1, -1, 0, 0, 0, 0},
        {7, 0, 0, 1, 12, -1, 10, 5, 0, 0, 0},         // elements that take no bit
    };
    std::vector<int64_t> words = {13, 0, 1};
    words.resize(19);
    words.push_back(static_cast<int64_t>(code.size()));
    for (const auto& one : code) words.insert(words.end(), one.begin(), one.end());
    const std::vector<int64_t> rest = {
        2, 0, 3, 0, 4, 200, 0,                        // ranges
        2, 18, 1, 0, 1, 19, 1, 1, 1,                  // options
        6, 0, 1, 1, 1, 0, 0,                          // tables
        13, 3, 7, 3, 8, 3, 7, 3, 10, 3, 0, 3, 10, 3, 11, 3, 3, 4, 1, 4, 10, 3, 0, 3, 2, 3, 3,
        0, 1, 1, 1,                                   // packet header
        1, 0, 1, 3, 4, 2, 2, 2, 1,                    // stream class
        1, 0, 0, 6, 14, 3, 3, 3};                     // event class
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
}

// Plans of all instructions, some of them damaged, over streams of anything.
void one_ctf(const std::string& folder, std::mt19937_64& random) {
    std::vector<int64_t> words = ctf_plan(random);
    for (size_t i = random() % 4 == 0 ? random() % 4 : 0; i > 0; --i) {
        words[random() % words.size()] = static_cast<int64_t>(random() % 64) - 8;
    }
    std::string file;
    for (size_t packet = 0; packet < 1 + random() % 4; ++packet) {
        std::string body;
        for (size_t i = 0; i < random() % 400; ++i) {
            body += static_cast<char>(random() % 3 == 0 ? random() : random() % 6);
        }
        const auto total = static_cast<uint32_t>(8 * (body.size() + 9));
        const uint32_t content = random() % 8 == 0 ? static_cast<uint32_t>(random()) : total - random() % 32;
        file += '\0';
        for (const uint32_t size : {total, content}) {
            for (int i = 0; i < 4; ++i) file += static_cast<char>(size >> (8 * i));
        }
        file += body;
    }
    if (random() % 3 == 0) file = mutated(random, file);
    const std::string path = folder + "/fuzz-failed";
    std::ofstream(path, std::ios::binary).write(file.data(), static_cast<long>(file.size()));
    alarm(kMostSeconds);
    std::vector<uint8_t> plan;
    for (const int64_t word : words) {
        for (int i = 0; i < 8; ++i) plan.push_back(static_cast<uint8_t>(static_cast<uint64_t>(word) >> (8 * i)));
    }
    try {
        sightline::ctf::Streams streams(plan.data(), plan.size(), {path, path});
        bool goes_on = true;
        uint64_t events = 0;
        while (goes_on) {
            goes_on = streams.read(1 + random() % 64, 1 << 20);
            streams.take_packets();
            for (size_t table = 0; table < streams.tables(); ++table) {
                const auto rows = static_cast<int64_t>(streams.rows(table));
                if (table == 3) events += static_cast<uint64_t>(rows);
                const sightline::Batch batch = streams.take(table);
                check(batch.rows == rows, "all rows come");
                take_over(batch);
            }
        }
        check(events <= 16 * file.size() + 16, "an event takes a bit");
    } catch (const std::invalid_argument&) {
    }
}

// Lines that nearly follow patterns, with ends that come often.
void one_log(std::mt19937_64& random) {
    using sightline::FieldKind;
    static const char* const pieces[] = {"12", "1234567890123456789", ":", " ", "{", "}", ", ", ",",
                                         "name", "1.5e3", "\n", "\r\n", "\t", "\xff", "(x) :7", ":5:6"};
    static const std::vector<std::vector<sightline::LinePart>> patterns = {
        {{"", "a", FieldKind::integer}, {":", "b", FieldKind::free}, {":", "c", FieldKind::integer}},
        {{"", "a", FieldKind::word}, {"{", "", FieldKind::any}, {"} ", "b", FieldKind::number}},
        {{"", "a", FieldKind::cell}, {", ", "b", FieldKind::cell}, {" ", "c", FieldKind::text}},
        {{"", "", FieldKind::any}, {":", "", FieldKind::any}, {"} ", "", FieldKind::any, false}}};
    std::string file;
    for (size_t i = 0; i < 1 + random() % 400; ++i) file += pieces[random() % std::size(pieces)];
    alarm(kMostSeconds);
    sightline::LineTables tables(patterns);
    tables.read(file);
    int64_t lines = tables.rest().rows;
    for (size_t i = 0; i < tables.patterns(); ++i) {
        const std::vector<std::string> fields = tables.text_fields(i);
        for (size_t k = 0; k < fields.size(); ++k) tables.texts(i, k);
        const sightline::Batch batch = tables.take(i);
        lines += batch.rows;
        take_over(batch);
    }
    check(lines <= static_cast<int64_t>(std::count(file.begin(), file.end(), '\n')) + 1,
          "a line comes once");
}

// Folded stacks with suffixes, blanks and counts of any size; their frames as a trie.
void one_folded(std::mt19937_64& random) {
    static const char* const pieces[] = {"main", ";", ";", " 12", " ", "_[k]", "_[G]", "_[g]", "-", "#",
                                         "//", "\n", "\r\n", "\x1c", "\xc2\xa0", "\xff", "%3B",
                                         " 1234567890123456789", "; 3\n", "a;b 7\n"};
    std::string file;
    for (size_t i = 0; i < 1 + random() % 400; ++i) file += pieces[random() % std::size(pieces)];
    alarm(kMostSeconds);
    sightline::FoldedText text;
    text.read(file);
    const auto ends = static_cast<size_t>(std::count(file.begin(), file.end(), '\n'));
    const sightline::Batch lines = text.lines(), frames = text.frames();
    check(static_cast<size_t>(lines.rows) + text.rest().size() <= ends + 1, "a line comes once");
    take_over(lines);
    take_over(text.texts());
    const auto* codes = static_cast<const uint32_t*>(frames.columns[0]->data);
    std::vector<int64_t> numbers(codes, codes + frames.rows);
    std::vector<int64_t> lengths;
    for (size_t left = numbers.size(); left != 0; left -= static_cast<size_t>(lengths.back())) {
        lengths.push_back(static_cast<int64_t>(random() % (left + 1)));
    }
    sightline::StackNodes nodes;
    const auto keys = [](const std::vector<int64_t>& column) {
        return sightline::Keys{static_cast<int64_t>(column.size()), {column.data()}};
    };
    take_over(nodes.add_paths(sightline::StackNodes::kRoot, keys(numbers), keys(lengths)));
    take_over(nodes.add_rows(keys(std::vector<int64_t>(3, sightline::StackNodes::kRoot))));
    check(nodes.table().rows <= frames.rows, "a frame is one node at most");
    take_over(nodes.table());
    if (lengths.empty()) return;
    lengths[random() % lengths.size()] += random() % 2 == 0 ? 1 + frames.rows : -1 - frames.rows;
    try {
        nodes.add_paths(sightline::StackNodes::kRoot, keys(numbers), keys(lengths));
        check(false, "paths that cannot be are refused");
    } catch (const std::invalid_argument&) {
    }
}

// Documents that nearly are what is asked for, with values of all kinds.
void one_document(std::mt19937_64& random) {
    using sightline::CellKind;
    static const char* const pieces[] = {"[", "]", "{", "}", ",", ",", "\"a\":", "\"b\":", "1", "-0", "1e400",
                                         "12345678901234567890", "\"text\"", "\"\\ud800\"", "null", "true",
                                         "[1,2,", "NaN", " ", "{\"a\":[", "{\"b\":3},", "\xff"};
    std::string file = "{\"a\":[";
    for (size_t i = 0; i < random() % 200; ++i) file += pieces[random() % std::size(pieces)];
    if (random() % 2 == 0) file = "{\"a\":[{\"b\":[1,2]},{\"b\":[\"x\",{}]},{\"a\":[[3]]},7.5]}";
    if (random() % 2 == 0) file = mutated(random, file);
    alarm(kMostSeconds);
    sightline::JsonTables tables(
        {{{"a", "[]"}, {{"text", {"b"}, CellKind::text}, {"list", {"b"}, CellKind::integers}}},
         {{"a", "[]", "a", "[]"}, {{"first", {"[0]"}, CellKind::integer}, {"own", {}, CellKind::decimal}}},
         {{}, {{"length", {"a"}, CellKind::length}}}});
    if (!tables.read(file)) return;
    check(tables.lengths(0, 1).rows == tables.take(0).rows, "a list has a row");
    for (size_t i = 1; i < 3; ++i) {
        const sightline::Batch batch = tables.take(i);
        check(batch.rows <= static_cast<int64_t>(file.size()) + 1, "a row takes a byte");
        take_over(batch);
    }
    take_over(tables.items(0, 1));
    take_over(tables.texts());
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 4) {
        std::fprintf(stderr, "sightline-fuzz SECONDS SEED FILE...\n");
        return 2;
    }
    std::vector<std::string> inputs;
    for (int i = 3; i < count; ++i) {
        std::ifstream file(arguments[i], std::ios::binary);
        inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    std::mt19937_64 random(std::strtoull(arguments[2], nullptr, 10));
    char folder[] = "/tmp/sightline-fuzz-XXXXXX";
    if (mkdtemp(folder) == nullptr) return 2;
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(arguments[1]));
    size_t rounds = 0;
    while (std::chrono::steady_clock::now() < until) {
        const std::string& input = inputs[random() % inputs.size()];
        ++rounds;
        if (random() % 4 == 0) {
            one_report(folder, random);
            continue;
        }
        if (random() % 4 == 0) {
            one_trace(random);
            continue;
        }
        if (random() % 4 == 0) {
            one_ctf(folder, random);
            continue;
        }
        if (random() % 4 == 0) {
            one_log(random);
            continue;
        }
        if (random() % 4 == 0) {
            one_folded(random);
            one_document(random);
            continue;
        }
        if (input.compare(0, 15, "SQLite format 3") == 0) {
            one_database(damaged(random, input), folder, random);
            continue;
        }
        // A part of a large trace, from its start, from the middle, or all of a small one.
        const size_t from = input.size() > kMostBytes && random() % 2 != 0
                                ? random() % (input.size() - kMostBytes)
                                : 0;
        const std::string part = "[" + input.substr(from, 1000 + random() % kMostBytes);
        one(mutated(random, part), folder, random);
    }
    std::printf("%zu inputs, none failed\n", rounds);
    return 0;
}
