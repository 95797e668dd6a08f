// Passes over columns: joins, intervals, graphs.
#include "bindings/bind.h"

#include "passes/cover.h"
#include "passes/edges.h"
#include "passes/lanes.h"
#include "passes/ledger.h"
#include "passes/partition.h"
#include "passes/path.h"
#include "passes/peaks.h"
#include "passes/replay.h"
#include "passes/trees.h"
#include "columns/order.h"

namespace sightline {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace {

Batch replay_of(const nb::object& frame) {
    const Given given(frame, 11);
    const NumberColumns nodes = given.columns();
    const nb::gil_scoped_release release;
    return replay(nodes);
}

Batch row_of_ids(const nb::object& ids, const nb::object& wanted, bool in_order) {
    const Given known(ids, 1), asked(wanted, 1);
    const Keys have = known.keys(), want = asked.keys();
    const nb::gil_scoped_release release;
    return row_of(have, want, in_order);
}

std::pair<Batch, Batch> number_of(const nb::object& frame) {
    const Given given(frame);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return number(keys);
}

std::pair<Batch, Batch> number_texts_of(const nb::object& frame) {
    const Given given(frame, 1);
    const TextColumn column = given.texts();
    const nb::gil_scoped_release release;
    return number_texts(column);
}

Batch first_of(const nb::object& known, const nb::object& wanted) {
    const Given given(known), asked(wanted);
    const Keys have = given.keys(), want = asked.keys();
    if (want.columns.empty() || have.columns.size() != want.columns.size()) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return first(have, want);
}

Batch latest_of(const nb::object& events, const nb::object& queries, bool from_then_on) {
    const Given known(events), asked(queries);
    const Keys have = known.keys(), want = asked.keys();
    if (want.columns.empty() || have.columns.size() < want.columns.size()) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return latest(have, want, from_then_on);
}

Batch cover_of(const nb::object& intervals, const nb::object& queries) {
    const Given known(intervals), asked(queries);
    const Keys have = known.keys(), want = asked.keys();
    const size_t group = have.columns.size() - 2;  // of none at all that is more than any other
    if (want.columns.size() != group + 1 && want.columns.size() != group + 2) {
        throw nb::value_error("not the columns that are wanted");
    }
    const nb::gil_scoped_release release;
    return cover(have, want);
}

// Throws where a column of rows names one that is not among so many.
void check_rows(const NumberColumn& rows, int64_t count, int64_t among) {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const int64_t row = rows[i];
        if (row != kNull && (row < 0 || row >= among)) throw nb::value_error("there is no such row");
    }
    if (among >= static_cast<int64_t>(kNoRow)) throw nb::value_error("there are too many rows");
}

Batch climb_of(const nb::object& ranges, const nb::object& starts) {
    const Given given(ranges, 2), asked(starts, 2);
    const NumberColumns known = given.columns(), from = asked.columns();
    check_rows(known.columns[1], known.rows, known.rows);
    check_rows(from.columns[0], from.rows, known.rows);
    const nb::gil_scoped_release release;
    return climb(known, from);
}

Batch climb_to_of(const nb::object& parents, const nb::object& wanted, const nb::object& starts) {
    const Given given(parents, 1), meant(wanted, 1), asked(starts, 1);
    const NumberColumns up = given.columns(), to = meant.columns(), from = asked.columns();
    for (const NumberColumns* rows : {&up, &to, &from}) {
        check_rows(rows->columns[0], rows->rows, up.rows);
    }
    const nb::gil_scoped_release release;
    return climb_to(up, to, from);
}

Batch lanes_of(const nb::object& events) {
    const Given given(events, 4);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return lanes(keys);
}

Batch edges_of(const nb::object& nodes, int64_t stretch) {
    const Given given(nodes);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return edges(columns, stretch);
}

Batch path_of(const nb::object& nodes, int64_t node, int64_t begin, int64_t end,
              int64_t guess_lag) {
    const Given given(nodes, 11);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return path(columns, node, begin, end, guess_lag);
}

std::pair<Batch, Batch> sum_path_of(const nb::object& nodes, int64_t node, int64_t begin,
                                    int64_t end, int64_t guess_lag,
                                    const std::vector<int64_t>& kept) {
    const Given given(nodes, 12);
    const NumberColumns columns = given.columns();
    const nb::gil_scoped_release release;
    return sum_path(columns, node, begin, end, guess_lag, kept);
}

Batch slack_of(const nb::object& nodes) {
    const Given given(nodes, 11);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return slack(keys);
}

Batch trees_of(const nb::object& ranges, size_t width) {
    const Given given(ranges);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return trees(keys, width);
}

Batch partition_of(const nb::object& intervals, const nb::object& windows, size_t classes) {
    const Given active(intervals), cut(windows);
    const Keys have = active.keys(), want = cut.keys();
    const nb::gil_scoped_release release;
    return partition(have, want, classes);
}

Batch peaks_without(const nb::object& sums, const nb::object& blocks, int64_t groups) {
    const Given given_sums(sums, 2), given_blocks(blocks, 4);
    const Keys all = given_sums.keys(), taken = given_blocks.keys();
    const nb::gil_scoped_release release;
    return find_peaks_without(all, taken, groups);
}

Batch add_to(Ledger& ledger, const nb::object& events) {
    const Given given(events, 4);
    const Keys keys = given.keys();
    const nb::gil_scoped_release release;
    return ledger.add(keys);
}

}  // namespace

void bind_passes(nb::module_& m) {
    m.def("replay", &replay_of, "nodes"_a);
    m.def("lanes", &lanes_of, "events"_a);
    m.def("edges", &edges_of, "nodes"_a, "stretch"_a);
    m.def("path", &path_of, "nodes"_a, "node"_a, "begin"_a, "end"_a, "guess_lag"_a);
    m.def("sum_path", &sum_path_of, "nodes"_a, "node"_a, "begin"_a, "end"_a,
          "guess_lag"_a, "kept"_a);
    m.def("slack", &slack_of, "nodes"_a);
    m.def("partition", &partition_of, "intervals"_a, "windows"_a, "classes"_a);
    m.def("peaks_without", &peaks_without, "sums"_a, "blocks"_a, "groups"_a);
    m.def("trees", &trees_of, "ranges"_a, "width"_a);
    m.def("row_of", &row_of_ids, "ids"_a, "wanted"_a, "in_order"_a);
    m.def("first", &first_of, "known"_a, "wanted"_a);
    m.def("number", &number_of, "rows"_a);
    m.def("number_texts", &number_texts_of, "column"_a);
    m.def("latest", &latest_of, "events"_a, "queries"_a, "from_then_on"_a);
    m.def("cover", &cover_of, "intervals"_a, "queries"_a);
    m.def("climb", &climb_of, "ranges"_a, "starts"_a);
    m.def("climb_to", &climb_to_of, "parents"_a, "wanted"_a, "starts"_a);

    nb::class_<Ledger>(m, "Ledger")
        .def(nb::init<bool>(), "keeps_blocks"_a)
        .def("add", &add_to, "events"_a)
        .def("earlier", &Ledger::earlier, Unlocked())
        .def("blocks", &Ledger::blocks, Unlocked())
        .def_prop_ro("lost_frees", &Ledger::lost_frees)
        .def_prop_ro("lost_allocations", &Ledger::lost_allocations);
}

}  // namespace sightline
