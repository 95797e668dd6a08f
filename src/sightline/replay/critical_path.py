"""The critical path through a dependency graph, and how much slack everything else has.

Going back from the last end: a node began when it did because of one of the things that it waited
for (the latest); the path follows that one. The time between the two is an edge of the path.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import polars as pl

from sightline._native import path as native_path
from sightline._native import slack as native_slack
from sightline._native import sum_path as native_sum_path
from sightline.core.algebra.arrow import pack_columns, pack_numbers, unpack_columns
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import Texts, take_rows
from sightline.replay.graph import LATE_NS, PROCESS, READ_BACK, WAIT_NS
from sightline.replay.replay import EDGES
from sightline.timeline.api_calls import launches_graph
from sightline.timeline.classes import BLITS, WAITS
from sightline.timeline.communication_names import PATTERN

# What an edge into a node means, by the node's kind and the edge.
HOST, LAUNCH, GAP, EVENT, RETURN, UNEXPLAINED = (
    "CPU code between calls",
    "launch latency",
    "gap on the stream",
    "event wait",
    "return of a wait",
    "not explained",
)
CALL, COMPUTE, COMM, COPY = "CPU in a call", "compute", "communication", "copy or memset"
OTHER = "unknown operation"  # a device ran it, and what it does is not known
# An operation that nothing else held, whose launch the recording lacks: the host's lateness, by
# guess.
UNRECORDED = "launch not recorded"
# An operation that was launched, and that nothing recorded held, while a call of its own process
# waited for the device: the wait is in the driver or on the device, by guess.
HELD = "launched, not started"
# The first operation of a graph, launched and with nothing recorded before it: the graph is
# uploaded, or begins with operations that the recording lacks, by guess.
GRAPH = "start of a graph"
# Of a HELD piece, what the call must cover (ours: all but what lies between two calls).
_COVERED = 0.9

# On what a piece rests. An edge into another stream is inferred where an event wait or the timing
# tells of it (`graph`).
RECORDED, INFERRED, GUESSED = "recorded", "inferred", "guessed"


def sort_nodes(nodes: pl.DataFrame, collectives: pl.Series | None = None) -> pl.Series:
    """Each node's sort, a number: what its pieces of a path are named by.

    It follows `timeline.classes`; `collectives` are the operations that are known to communicate,
    whatever their names. No replay changes it: one answer does for all paths through a graph.
    """
    known = pl.Series([], dtype=pl.Int64) if collectives is None else collectives
    names = Texts(nodes.get_column("name"))
    kind = pl.col("kind")
    return nodes.select(
        pl.when(kind == "call")
        .then(_CALL)
        .when(kind == "finish")
        .then(_FINISH)
        .when((kind == "memcpy") & names.match(READ_BACK))
        .then(_TOUCHED)
        .when(kind.is_in(["memcpy", "memset"]) | names.match(BLITS))
        .then(_COPY)
        .when(names.match(PATTERN) | pl.col("ref_id").is_in(known.implode()))
        .then(_COMM)
        .when((kind == "other") | names.match(WAITS))
        .then(_OTHER)
        .otherwise(_COMPUTE)
        .cast(pl.Int64)
        * 4
        + pl.col("launch").is_not_null().cast(pl.Int64) * 2
        + pl.col("wait_by").is_not_null().cast(pl.Int64)
    ).to_series()


def trace_critical_path(
    nodes: pl.DataFrame, begin_ns: int, end_ns: int, sort: pl.Series | None = None
) -> pl.DataFrame:
    """Pieces of the path in order of time: start_ns, end_ns, part, node, basis. They leave no hole.

    The path is cut to `begin_ns` .. `end_ns`; where nothing recorded leads further back, the rest
    is 'not explained', without a basis, or its launch was not recorded. `sort` is `sort_nodes`'
    answer, where that is known.
    """
    pieces = _walk(nodes, begin_ns, end_ns, sort_nodes(nodes) if sort is None else sort)
    named = _name_pieces()
    sort = pieces.get_column("sort")
    part, basis = (named.get_column(c).gather(sort) for c in ("part", "basis"))
    rests = (part == UNEXPLAINED).arg_true()
    if rests.len():
        guess = _guess_rests(take_rows(pieces, rests), nodes)
        rows, guess = rests.filter(guess.is_not_null()), guess.drop_nulls()
        part, basis = part.scatter(rows, guess), basis.scatter(rows, GUESSED)
    return pieces.select("start_ns", "end_ns", part, "node", basis)


def sum_critical_path(
    nodes: pl.DataFrame, begin_ns: int, end_ns: int, sort: pl.Series
) -> pl.DataFrame:
    """How much of the path `trace_critical_path` finds each `part` is, `ns`; in no order.

    `sort` is that of the nodes (`sort_nodes`), or of those that they were replayed from.
    """
    named = _name_pieces().with_row_index("name")
    unexplained = named.filter(pl.col("part") == UNEXPLAINED).get_column("name").to_list()
    given, first, reach = _begin_at_end(nodes, begin_ns, end_ns)
    given = given.with_columns(sort.alias("sort"))
    sums, rests = (
        unpack_columns(batch)
        for batch in native_sum_path(
            pack_columns(given), first, begin_ns, reach, WAIT_NS, unexplained
        )
    )
    parts = sums.select("ns", part=named.get_column("part").gather(sums.get_column("name")))
    if rests.height:
        guess = _guess_rests(rests, nodes).fill_null(UNEXPLAINED)
        length = pl.col("end_ns") - pl.col("start_ns")
        parts = pl.concat([parts, rests.select(length.alias("ns"), guess.alias("part"))])
    return parts.group_by("part").agg(pl.col("ns").sum())


def _begin_at_end(nodes: pl.DataFrame, begin_ns: int, end_ns: int) -> tuple[pl.DataFrame, int, int]:
    """What a walk needs: the nodes' columns, the one to begin with, and the end of the path.

    That is its begin, so that it has no length, where no operation ends the window.
    """
    ends = nodes.select("end_ns", "start_ns", "kind", "node").filter(
        pl.col("end_ns") == end_ns,
        pl.col("start_ns") >= begin_ns,
        ~pl.col("kind").is_in(["call", "finish"]),
    )
    given = nodes.select("start_ns", "end_ns", *EDGES, "guess", "residual_ns", "meeting")
    return (given, int(ends.item(0, "node")), end_ns) if ends.height else (given, 0, begin_ns)


def _walk(nodes: pl.DataFrame, begin_ns: int, end_ns: int, sort: pl.Series) -> pl.DataFrame:
    """The path's pieces, in order of time and cut to the window; `sort` is a row of their names."""
    given, first, reach = _begin_at_end(nodes, begin_ns, end_ns)
    walked = unpack_columns(native_path(pack_columns(given), first, begin_ns, reach, WAIT_NS))
    pieces = walked.reverse().select(
        pl.max_horizontal("start_ns", pl.lit(begin_ns, pl.Int64)),
        "end_ns",
        "node",
        sort=sort.gather(walked.get_column("node").reverse()) * _STEPS + pl.col("step"),
    )
    return pieces.filter(pl.col("end_ns") > pl.col("start_ns"))


def _guess_rests(rests: pl.DataFrame, nodes: pl.DataFrame) -> pl.Series:
    """Of each piece that nothing recorded explains HELD or GRAPH, where that is likely, or null."""
    launch = nodes.get_column("launch").gather(rests.get_column("node"))
    calls = nodes.select(*PROCESS, called="name", call_ns="start_ns")
    asked = rests.hstack(take_rows(calls, launch))
    is_launched = pl.col("called").is_not_null()
    return asked.select(
        pl.when(is_launched & launches_graph(Texts(asked.get_column("called"))))
        .then(pl.lit(GRAPH))
        .when(is_launched & _is_held(asked, nodes))
        .then(pl.lit(HELD))
    ).to_series()


def _is_held(pieces: pl.DataFrame, nodes: pl.DataFrame) -> pl.Series:
    """During which one call that waits for the device held their process nearly all the while.

    That of the operation itself does so however short the piece is.
    """
    start, length = pl.col("start_ns"), pl.col("end_ns") - pl.col("start_ns")
    # A call that covers enough has begun by then.
    pieces = pieces.with_columns(by_ns=start + ((1 - _COVERED) * length).cast(pl.Int64))
    returns = nodes.filter(pl.col("kind") == "finish")
    began = nodes.get_column("start_ns").gather(returns.get_column("prev"))
    waits = returns.select(*PROCESS, began=began, returned="end_ns").drop_nulls("began")
    last = find_latest(pieces, "by_ns", waits, "began", PROCESS)
    pieces = pieces.hstack(take_rows(waits.select("began", "returned"), last))
    covered = pl.min_horizontal("end_ns", "returned") - pl.max_horizontal("start_ns", "began")
    enough = (length > LATE_NS) | (pl.col("began") == pl.col("call_ns"))
    held = pl.col("began").is_not_null() & (covered >= _COVERED * length) & enough
    return pieces.select(held).to_series()


# What a step of the walk is, and on what an edge rests (native/passes/path.h).
_STEPS = 8
_MET, _OWN, _REST, _BEGINNING, _PREV, _LAUNCH, _WAIT, _GUESS = range(_STEPS)
_GAPS = {_PREV: GAP, _LAUNCH: LAUNCH, _WAIT: EVENT, _GUESS: EVENT}

# Sorts of nodes: what it is, whether its launch is known, and whether its wait is inferred.
_KINDS = range(7)
_CALL, _FINISH, _COPY, _OTHER, _COMM, _COMPUTE, _TOUCHED = _KINDS
_OWN_PARTS = {
    _CALL: CALL,
    _FINISH: CALL,
    _COPY: COPY,
    _OTHER: OTHER,
    _COMM: COMM,
    _TOUCHED: COPY,
}


@lru_cache(maxsize=1)
def _name_pieces() -> pl.DataFrame:
    """Of each sort of node and step from it: `part` of the path, and `basis`, on what it rests."""
    named = [
        _name_piece(*each) for each in product(_KINDS, (False, True), (False, True), range(_STEPS))
    ]
    return pl.DataFrame(named, schema={"part": pl.String, "basis": pl.String}, orient="row")


def _name_piece(kind: int, launched: bool, inferred: bool, step: int) -> tuple[str, str | None]:
    if step in (_REST, _BEGINNING):
        is_host = kind in (_CALL, _FINISH)
        return (UNEXPLAINED, None) if is_host or launched else (UNRECORDED, GUESSED)
    basis = GUESSED if step == _GUESS else RECORDED
    if step == _WAIT and inferred:
        basis = INFERRED
    if step == _MET:
        return COMM, basis
    if step == _OWN:
        return _OWN_PARTS.get(kind, COMPUTE), basis
    if kind == _CALL and step == _WAIT:
        return RETURN, basis
    if kind == _CALL or (kind == _TOUCHED and step == _PREV and not launched):
        return HOST, basis
    if kind == _FINISH:
        return (CALL if step == _PREV else RETURN), basis
    return _GAPS[step], basis


def compute_slack(nodes: pl.DataFrame) -> pl.Series:
    """How many ns later each node could end without making the end of the run later."""
    given = nodes.select(
        "start_ns",
        "end_ns",
        (~pl.col("kind").is_in(["call", "finish"])).cast(pl.Int64).alias("is_op"),
        "residual_ns",
        pl.col("meeting").fill_null(-1),
        *(c for edge in ("prev", "launch", "wait") for c in (edge, f"{edge}_lag_ns")),
    )
    return unpack_columns(native_slack(pack_numbers(given))).to_series()
