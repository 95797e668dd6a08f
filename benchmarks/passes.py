"""Compares each compiled pass over columns with plain Polars.

    python benchmarks/passes.py [--rows N] [--rounds N] [NAME...]

Both sides answer the same question about the same frames, and their answers are compared before
anything is timed. Rounds alternate between the two, so that other load on the machine slows both;
the figures are medians in ms and their ratio (above 1: ours is faster). The frames look like those
that analyses ask about: ranges of one thread or of many, in the orders of recordings, and shuffled.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from sightline._native import edges as native_edges
from sightline._native import sum_path as native_sum_path
from sightline.core.algebra.arrow import pack_columns, unpack_columns
from sightline.core.algebra.intervals import (
    clip_intervals,
    measure_cover,
    measure_cover_between,
    merge_intervals,
    partition_windows,
)
from sightline.core.algebra.lanes import assign_lanes
from sightline.core.algebra.latest import find_latest, find_next
from sightline.core.algebra.lookup import (
    Texts,
    find_first_rows,
    find_rows,
    number_groups,
    take_rows,
)
from sightline.core.algebra.nesting import nest_ranges
from sightline.core.algebra.trees import climb_ranges, climb_to_rows
from sightline.core.model.store import ID_SHIFT
from sightline.replay import critical_path as path
from sightline.replay import graph
from sightline.replay.replay import replay_graph

SPAN_NS = 60_000_000_000  # a minute: times of a million events seldom tie
THREAD = ["rank", "pid", "tid"]


class Case(NamedTuple):
    """One question about given frames, and both ways to answer it."""

    name: str
    frames: str
    ours: Callable[[], Any]
    polars: Callable[[], Any] | None  # None where a loop over rows is all that answers it


# Plain Polars


def latest_in_polars(
    queries: pl.DataFrame,
    at: str,
    events: pl.DataFrame,
    time: str,
    by: list[str],
    ties: tuple[str, ...] = (),
) -> pl.Series:
    """`latest` by an as-of join; both sides are sorted where they are not."""
    known = events.select(*by, *ties, _time=time, _row=pl.int_range(pl.len())).drop_nulls(
        [*by, "_time"]
    )
    if ties or not known.get_column("_time").is_sorted():
        known = known.sort("_time", *ties, maintain_order=True)
    asked = queries.select(*by, _time=at, _query=pl.int_range(pl.len())).drop_nulls()
    if not asked.get_column("_time").is_sorted():
        asked = asked.sort("_time")
    found = asked.join_asof(
        known.select(*by, "_time", "_row"), on="_time", by=by or None, check_sortedness=False
    )
    nothing = pl.repeat(None, queries.height, dtype=pl.Int64, eager=True)
    return nothing.scatter(found.get_column("_query"), found.get_column("_row"))


def latest_by_search(queries: pl.DataFrame, at: str, events: pl.DataFrame, time: str) -> pl.Series:
    """`latest` of one group by a binary search, which Polars has for a whole column."""
    known = events.select(_time=time, _row=pl.int_range(pl.len()))
    if not known.get_column("_time").is_sorted():
        known = known.sort("_time", maintain_order=True)
    last = known.get_column("_time").search_sorted(queries.get_column(at), side="right")
    last = last.cast(pl.Int64) - 1
    return known.get_column("_row").gather(pl.select(pl.when(last >= 0).then(last)).to_series())


def row_of_in_polars(ids: pl.Series, wanted: pl.Series) -> pl.Series:
    known = ids.alias("id").to_frame().with_row_index("row")
    asked = wanted.alias("id").to_frame()
    return (
        asked.join(known, on="id", how="left", maintain_order="left")
        .get_column("row")
        .cast(pl.Int64)
    )


def row_of_by_search(ids: pl.Series, wanted: pl.Series) -> pl.Series:
    found = ids.search_sorted(wanted).cast(pl.Int64)
    at = pl.select(pl.when(found < ids.len()).then(found)).to_series()
    return pl.select(pl.when(ids.gather(at) == wanted).then(at)).to_series()


def first_row_in_polars(
    known: pl.DataFrame, wanted: pl.DataFrame, number: str, by: list[str]
) -> pl.Series:
    on = [*by, number]
    rows = known.select(on).with_row_index("row").unique(on, keep="first")
    found = wanted.select(on).join(rows, on=on, how="left", maintain_order="left")
    return found.get_column("row").cast(pl.Int64)


def partition_in_polars(
    frame: pl.DataFrame, windows: pl.DataFrame, by: list[str], classes: list[str]
) -> pl.DataFrame:
    """What a class covers together with those before it, less what those before it cover."""
    inside = clip_intervals(frame.select(*by, "start_ns", "end_ns", "class_"), windows, by)
    length = pl.col("window_end_ns") - pl.col("window_start_ns")
    found = windows.select(*by, window_ns=length, before=pl.lit(0, pl.Int64))
    for place, name in enumerate(classes):
        own = measure_cover(inside.filter(pl.col("class_").is_in(classes[: place + 1])), by)
        found = (
            found.join(own, on=by, how="left", nulls_equal=True, maintain_order="left")
            .with_columns(pl.col("covered_ns").fill_null(0))
            .with_columns((pl.col("covered_ns") - pl.col("before")).alias(f"{name}_ns"))
            .drop("before")
            .rename({"covered_ns": "before"})
        )
    idle = pl.col("window_ns") - pl.col("before")
    return found.with_columns(idle_ns=idle).drop("before").sort(by)


def edges_in_polars(given: pl.DataFrame) -> pl.DataFrame:
    """`native.edges`: one sort, three joins, and the residual as one expression."""
    nodes = given.with_row_index("row").sort("moment", "turn", "uid", maintain_order=True)
    nodes = nodes.with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    known = nodes.select("uid", before="place", from_start="start_ns", from_end="end_ns")
    earliest = []
    for edge in graph.EDGES:
        moment = "from_start" if edge == "launch" else "from_end"
        apart = pl.col("start_ns") - pl.col(moment)
        lag = pl.min_horizontal(f"{edge}_lag_ns", apart)
        nodes = (
            nodes.join(
                known, left_on=f"{edge}_uid", right_on="uid", how="left", maintain_order="left"
            )
            .with_columns(pl.when(pl.col("before") < pl.col("place")).then("before").alias(edge))
            .with_columns(
                pl.when(pl.col(edge).is_not_null()).then(pl.col(moment) + lag).alias(f"from_{edge}")
            )
            .drop("before", "from_start", "from_end")
        )
        earliest.append(f"from_{edge}")
    residual = pl.col("start_ns") - pl.max_horizontal(earliest).fill_null(0)
    return nodes.select(pl.col("row").cast(pl.Int64), *graph.EDGES, residual_ns=residual)


def cover_in_polars(
    queries: pl.DataFrame, since: str, until: str, intervals: pl.DataFrame, by: list[str]
) -> pl.Series:
    """What the union covers before each moment, found by an as-of join, and their difference."""
    merged = merge_intervals(intervals, by)
    sums = merged.with_columns(sum=(pl.col("end_ns") - pl.col("start_ns")).cum_sum().over(by))
    before = []
    for at in (since, until):
        last = latest_in_polars(queries, at, sums, "start_ns", by)
        found = take_rows(sums.select("end_ns", "sum"), last).with_columns(at=queries[at])
        beyond = (pl.col("end_ns") - pl.col("at")).clip(lower_bound=0)
        before.append(found.select((pl.col("sum") - beyond).fill_null(0)).to_series())
    return before[1] - before[0]


def climb_in_polars(
    values: pl.Series, parents: pl.Series, starts: pl.Series, above: pl.Series
) -> pl.Series:
    """All questions go up one level at a time."""
    todo = pl.DataFrame({"row": pl.int_range(starts.len(), eager=True), "at": starts, "t": above})
    answer = pl.repeat(None, starts.len(), dtype=pl.Int64, eager=True)
    while todo.height:
        todo = todo.drop_nulls("at")
        is_found = values.gather(todo.get_column("at")) > todo.get_column("t")
        found, todo = todo.filter(is_found), todo.filter(~is_found)
        answer = answer.scatter(found.get_column("row"), found.get_column("at"))
        todo = todo.with_columns(at=parents.gather(todo.get_column("at")))
    return answer


def climb_to_in_polars(parents: pl.Series, wanted: pl.Series, starts: pl.Series) -> pl.Series:
    """All questions go up one level at a time, until they are among what is wanted."""
    nothing = pl.zeros(parents.len(), pl.Int64, eager=True)
    hit = nothing.clone().scatter(wanted, 1)
    return climb_in_polars(hit, parents, starts, nothing[: starts.len()])


def next_in_polars(
    queries: pl.DataFrame, at: str, events: pl.DataFrame, time: str, by: list[str]
) -> pl.Series:
    known = events.select(*by, pl.col(time).alias("_t"), found=pl.int_range(pl.len()))
    known = known.unique([*by, "_t"], keep="last").sort("_t")
    asked = queries.select(*by, pl.col(at).alias("_t")).with_row_index("_row").sort("_t")
    joined = asked.join_asof(known, on="_t", by=by, strategy="forward", check_sortedness=False)
    return joined.sort("_row").get_column("found").cast(pl.Int64)


def sum_path_in_polars(
    nodes: pl.DataFrame, begin_ns: int, end_ns: int, sort: pl.Series
) -> pl.DataFrame:
    """The pieces of the path, followed by compiled code too, and their sums by Polars."""
    pieces = path._walk(nodes, begin_ns, end_ns, sort)
    part = path._name_pieces().get_column("part").gather(pieces.get_column("sort"))
    length = pl.col("end_ns") - pl.col("start_ns")
    return pieces.select(part, ns=length).group_by("part").agg(pl.col("ns").sum()).sort("part")


def number_in_polars(frame: pl.DataFrame, by: list[str]) -> pl.Series:
    keys = frame.select(by)
    known = keys.unique(by, keep="first", maintain_order=True).with_row_index("number")
    found = keys.join(known, on=by, how="left", nulls_equal=True, maintain_order="left")
    return found.get_column("number").cast(pl.Int64)


def place_texts_in_polars(texts: pl.Series) -> pl.Series:
    different = texts.unique(maintain_order=True).drop_nulls()
    return texts.cast(pl.Enum(different)).to_physical().cast(pl.UInt32)


def lanes_in_polars(events: pl.DataFrame) -> pl.DataFrame:
    """Where nothing overlaps within a level, so that each level is one lane."""
    lines = events.select("track", "level").unique().sort("track", "level")
    lines = lines.with_columns(lane=pl.int_range(pl.len(), dtype=pl.Int32).over("track"))
    placed = events.join(lines, on=["track", "level"], how="left", maintain_order="left")
    return placed.sort(
        "track", "lane", "start_ns", "end_ns",
        descending=[False, False, False, True], maintain_order=True,
    )  # fmt: skip


def sum_path(nodes: pl.DataFrame, begin_ns: int, end_ns: int, sort: pl.Series) -> pl.DataFrame:
    """What `path.sum_critical_path` asks of compiled code, with no guesses."""
    given, first, reach = path._begin_at_end(nodes, begin_ns, end_ns)
    given = pack_columns(given.with_columns(sort.alias("sort")))
    sums, _ = native_sum_path(given, first, begin_ns, reach, graph.WAIT_NS, [])
    found = unpack_columns(sums)
    part = path._name_pieces().get_column("part").gather(found.get_column("name"))
    return found.select(part, "ns").group_by("part").agg(pl.col("ns").sum()).sort("part")


def edges(nodes: pl.DataFrame) -> pl.DataFrame:
    """What `graph` asks of compiled code."""
    return unpack_columns(native_edges(pack_columns(nodes), 4 << ID_SHIFT))


# Frames


def drawn(rows: int, below: int, seed: int) -> pl.Series:
    """Whole numbers below a limit, the same each time."""
    numbers = pl.int_range(rows, eager=True).hash(seed) % below
    return numbers.cast(pl.Int64)


IN_TIME, BY_THREAD, SHUFFLED = "in order of time", "thread by thread", "shuffled"


def calls(rows: int, threads: int, order: str = IN_TIME) -> pl.DataFrame:
    """Ranges of so many threads."""
    tid = drawn(rows, threads, 1)
    frame = pl.DataFrame(
        {
            "rank": pl.repeat(0, rows, dtype=pl.Int64, eager=True),
            "pid": tid // 4,
            "tid": tid,
            "start_ns": drawn(rows, SPAN_NS, 2).sort(),
            "length": drawn(rows, 100_000, 3),
            "id": pl.int_range(rows, eager=True),
        }
    ).select(pl.exclude("length"), end_ns=pl.col("start_ns") + pl.col("length"))
    return in_order(frame, order)


def in_order(frame: pl.DataFrame, order: str) -> pl.DataFrame:
    if order == BY_THREAD:
        return frame.sort("tid", maintain_order=True)
    return frame.sample(fraction=1, shuffle=True, seed=5) if order == SHUFFLED else frame


def nested_ranges(rows: int, threads: int) -> pl.DataFrame:
    """Ranges of which each fourth one holds the three after it."""
    place = pl.int_range(rows, eager=True)
    inner = place % 4
    start = (
        place // 4 * 1000 + pl.select(pl.when(inner > 0).then(inner * 200).otherwise(0)).to_series()
    )
    length = pl.select(pl.when(inner == 0).then(900).otherwise(100)).to_series()
    return pl.DataFrame(
        {"pid": 0, "tid": place // 4 % threads, "start_ns": start, "end_ns": start + length}
    )


def dependency_nodes(rows: int) -> pl.DataFrame:
    """What compiled code makes a graph of: calls, then the operations that they launch."""
    place = pl.int_range(rows, eager=True)
    return (
        pl.DataFrame({"place": place, "wait": drawn(rows, 100, 4)})
        .select(
            moment=pl.col("place") * 1000,
            turn=pl.when(pl.col("place") % 2 == 0).then(2).otherwise(0).cast(pl.Int64),
            uid=pl.col("place") * 4 + pl.col("place") % 2 * 2,
            prev_uid=pl.when(pl.col("place") > 1).then(
                (pl.col("place") - 2) * 4 + pl.col("place") % 2 * 2
            ),
            prev_lag_ns=pl.lit(500, pl.Int64),
            launch_uid=pl.when(pl.col("place") % 2 == 1).then((pl.col("place") - 1) * 4),
            launch_lag_ns=pl.lit(900, pl.Int64),
            wait_uid=pl.when(
                (pl.col("wait") == 0) & (pl.col("place") % 2 == 1) & (pl.col("place") > 40)
            ).then((pl.col("place") - 40) * 4 + 2),
            wait_lag_ns=pl.lit(200, pl.Int64),
            start_ns=pl.col("place") * 1000,
            end_ns=pl.col("place") * 1000 + 800,
        )
        .sort(pl.col("uid") % 4, maintain_order=True)
    )


# Cases


def latest_cases(rows: int) -> Iterator[Case]:
    for threads in (1, 64):
        for order in orders(threads):
            for share in (1, 10):
                events = calls(rows, threads, order)
                asked = calls(rows // share, threads).select(*THREAD, at="end_ns")
                by = THREAD[: 1 if threads == 1 else 3]
                given = (asked, "at", events, "start_ns", by)
                frames = f"{describe(threads, order)}, {rows // share:,} asked in order"
                yield Case(
                    "latest",
                    frames,
                    partial(find_latest, *given),
                    partial(latest_in_polars, *given),
                )
                yield Case(
                    "next", frames, partial(find_next, *given), partial(next_in_polars, *given)
                )
                if threads == 1:
                    yield Case(
                        "latest (search_sorted)",
                        frames,
                        partial(find_latest, *given),
                        partial(latest_by_search, *given[:4]),
                    )
        events = calls(rows, threads)
        given = (events, "start_ns", events, "end_ns", THREAD[: 1 if threads == 1 else 3], ("id",))
        yield Case(
            "latest",
            f"{describe(threads, IN_TIME)}, by end, ties by id",
            partial(find_latest, *given),
            partial(latest_in_polars, *given),
        )


def lookup_cases(rows: int) -> Iterator[Case]:
    ids = pl.int_range(rows, eager=True)
    # Calls are one of three ranges, and each thread's ids are consecutive; operations ask in the
    # order of their launches, which come from four threads in turn.
    launching = pl.DataFrame({"id": ids * 3, "thread": ids * 4 // rows})
    in_turn = launching.select(
        pl.col("id").sort_by(pl.int_range(pl.len()).over("thread"))
    ).to_series()
    questions = (
        ("all ids, asked in order", ids, ids),
        ("all ids, asked by four threads in turn", ids, in_turn // 3),
        ("every third id, asked in order", launching["id"], launching["id"]),
        ("every third id, asked by four threads in turn", launching["id"], in_turn),
        ("all ids, asked shuffled", ids, ids.shuffle(seed=3)),
        ("every third id, asked shuffled", launching["id"], launching["id"].shuffle(seed=3)),
        ("shuffled ids, asked in order", ids.shuffle(seed=3), ids),
    )
    for frames, known, wanted in questions:
        for how, other in (("join", row_of_in_polars), ("search_sorted", row_of_by_search)):
            if how == "search_sorted" and not known.is_sorted():
                continue
            ours, theirs = partial(find_rows, known, wanted), partial(other, known, wanted)
            yield Case(f"row_of ({how})", frames, ours, theirs)
    for groups in (1, 8):
        known = calls(rows, groups).select("pid", "tid", number=pl.int_range(pl.len()).over("tid"))
        asked = known.sample(fraction=1, shuffle=True, seed=4)
        for order, wanted in (("in order", known), ("shuffled", asked)):
            given = (known, wanted, "number", ["tid"])
            yield Case(
                "first_row",
                f"{groups} processes, asked {order}",
                partial(find_first_rows, *given),
                partial(first_row_in_polars, *given),
            )


def lane_cases(rows: int) -> Iterator[Case]:
    for tracks in (1, 64):
        place = pl.int_range(rows, eager=True)
        events = pl.DataFrame({"track": place % tracks, "level": place // tracks % 3})
        events = events.with_columns(start_ns=place * 100, end_ns=place * 100 + 90, id=place)
        for order, given in (("in order", events), ("shuffled", events.sample(rows, shuffle=True))):
            yield Case(
                "lanes",
                f"{3 * tracks} rows of a timeline, {order}",
                partial(assign_lanes, given),
                partial(lanes_in_polars, given),
            )


def text_cases(rows: int) -> Iterator[Case]:
    for count, length in ((60, 8), (60, 200), (rows // 4, 40)):
        texts = pl.Series("name", [f"{i:08d}".rjust(length, "k") for i in range(count)])
        drawn_texts = texts.gather(drawn(rows, count, seed=5))
        yield Case(
            "number_texts",
            f"{count:,} texts of {length} bytes",
            partial(lambda column: Texts(column).places, drawn_texts),
            partial(place_texts_in_polars, drawn_texts),
        )


def timeline_cases(rows: int) -> Iterator[Case]:
    classes = ["a", "b", "c"]
    by = ["rank", "tid"]
    for devices in (1, 8):
        for order in (IN_TIME, SHUFFLED):
            frame = calls(rows, devices, order).with_columns(
                class_=pl.concat_str(pl.lit("abc").str.slice(pl.col("id") % 3, 1))
            )
            windows = frame.group_by(by, maintain_order=True).agg(
                window_start_ns=pl.col("start_ns").min(), window_end_ns=pl.col("end_ns").max()
            )
            given = (frame, windows, by, classes)
            yield Case(
                "partition",
                describe(devices, order, "devices"),
                partial(partition_windows, *given),
                partial(partition_in_polars, *given),
            )
    for threads in (1, 64):
        for order in orders(threads):
            given = (frame := calls(rows, threads, order), "start_ns", "end_ns", frame, THREAD)
            yield Case(
                "cover",
                describe(threads, order),
                partial(measure_cover_between, *given),
                partial(cover_in_polars, *given),
            )
    for levels in (2, 100):
        # A row lies in the one before it, and goes up to the outermost.
        place = pl.int_range(rows, eager=True)
        up = pl.select(pl.when(place % levels > 0).then(place - 1)).to_series()
        given = ((place % levels == 0).cast(pl.Int64), up, place, place * 0)
        yield Case(
            "climb",
            f"up to {levels} levels",
            partial(climb_ranges, *given),
            partial(climb_in_polars, *given),
        )
    for levels in (2, 100):
        place = pl.int_range(rows, eager=True)
        up = pl.select(pl.when(place % levels > 0).then(place - 1)).to_series()
        given = (up, place.filter(place % levels == 0), place)
        yield Case(
            "climb_to",
            f"up to {levels} levels",
            partial(climb_to_rows, *given),
            partial(climb_to_in_polars, *given),
        )
    for groups in (8, 10_000):
        frame = pl.DataFrame({"a": drawn(rows, groups, 1), "b": drawn(rows, 2, 2)})
        yield Case(
            "number",
            f"{2 * groups:,} groups, shuffled",
            lambda frame=frame: number_groups(frame, ["a", "b"])[0],
            partial(number_in_polars, frame, ["a", "b"]),
        )
    for threads in (1, 64):
        for order in orders(threads):
            ranges = in_order(nested_ranges(rows, threads), order)
            yield Case("with_tree", describe(threads, order), partial(nest_ranges, ranges), None)
    given = dependency_nodes(rows)
    nodes = edges(given)
    yield Case(
        "edges",
        "calls and operations",
        partial(edges, given),
        partial(edges_in_polars, given),
    )
    nodes = given[nodes.get_column("row")].select(pl.exclude("^.*_uid$")).hstack(nodes.drop("row"))
    nodes = nodes.with_columns(
        meeting=pl.lit(None, pl.Int64), meeting_lag_ns=pl.lit(None, pl.Int64)
    )
    yield Case("replay", "calls and operations", partial(replay_graph, nodes), None)
    nodes = nodes.with_row_index("node").with_columns(
        guess=pl.lit(None, pl.Int64),
        kind=pl.when(pl.col("node") % 2 == 0).then(pl.lit("call")).otherwise(pl.lit("kernel")),
    )
    sort = nodes.select(pl.col("node").cast(pl.Int64) % 2 * 22).to_series()
    ends = nodes.filter(pl.col("kind") == "kernel").get_column("end_ns")
    given = (nodes, nodes.get_column("start_ns").min(), ends.max(), sort)
    yield Case(
        "sum_path",
        "calls and operations",
        partial(sum_path, *given),
        partial(sum_path_in_polars, *given),
    )


def orders(threads: int) -> list[str]:
    return [IN_TIME, SHUFFLED] if threads == 1 else [BY_THREAD, IN_TIME, SHUFFLED]


def describe(groups: int, order: str, what: str = "threads") -> str:
    count = f"{groups} {what}" if groups > 1 else f"1 {what[:-1]}"
    return f"{count}, {order}"


# Measuring


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, pl.DataFrame):
        return a.equals(b.select(a.columns))
    return bool((a.cast(pl.Int64).eq_missing(b.cast(pl.Int64))).all())


def measure(case: Case, rounds: int) -> tuple[float, float | None]:
    """Medians in ms of ours and of Polars, in alternating rounds after one that is not counted."""
    sides = [case.ours] if case.polars is None else [case.ours, case.polars]
    if case.polars is not None and not is_same(case.ours(), case.polars()):
        raise SystemExit(f"{case.name} ({case.frames}): the answers differ")
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, own in zip(sides, times, strict=True):
            start = time.perf_counter()
            side()
            own.append(time.perf_counter() - start)
    medians = [1000 * statistics.median(own) for own in times]
    return medians[0], medians[1] if len(medians) > 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only passes of these names")
    args = parser.parse_args()
    print(
        f"{args.rows:,} rows, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f},",
        end="",
    )
    print(f" Polars {pl.__version__}, medians of {args.rounds}\n")
    print("| pass | frames | ours ms | Polars ms | Polars / ours |")
    print("|---|---|---:|---:|---:|")
    for cases in (latest_cases, lookup_cases, text_cases, lane_cases, timeline_cases):
        for case in cases(args.rows):
            if args.names and case.name.split()[0] not in args.names:
                continue
            ours, other = measure(case, args.rounds)
            shown = f"{other:.0f} | {other / ours:.2f}" if other is not None else "a loop | -"
            print(f"| {case.name} | {case.frames} | {ours:.0f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
