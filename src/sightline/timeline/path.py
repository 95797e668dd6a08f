"""The critical path through a dependency graph, and how much slack everything else has.

Going back from the last end: a node began when it did because of one of the things that it waited
for (the latest); the path follows that one. The time between the two is an edge of the path.
"""

from __future__ import annotations

import polars as pl

from sightline._native import path as native_path
from sightline._native import slack as native_slack
from sightline.algebra.arrow import pack_numbers, unpack_columns
from sightline.algebra.latest import find_latest
from sightline.algebra.lookup import Texts, number_groups, take_rows
from sightline.timeline.api_calls import launches_graph
from sightline.timeline.classes import WAITS
from sightline.timeline.communication_names import PATTERN
from sightline.timeline.graph import LATE_NS, PROCESS, WAIT_NS
from sightline.timeline.replay import EDGES

# What an edge into a node means, by the node's kind and the edge.
HOST, LAUNCH, GAP, EVENT, RETURN, UNEXPLAINED = (
    "host, between calls",
    "launch latency",
    "gap on the stream",
    "event wait",
    "return of a wait",
    "not explained",
)
CALL, COMPUTE, COMM, COPY = "host, in a call", "compute", "communication", "copy or memset"
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


def trace_critical_path(nodes: pl.DataFrame, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """Pieces of the path in order of time: start_ns, end_ns, part, node, basis. They leave no hole.

    The path is cut to `begin_ns` .. `end_ns`; where nothing recorded leads further back, the rest
    is 'not explained', without a basis, or its launch was not recorded.
    """
    inside = nodes.filter(
        ~pl.col("kind").is_in(["call", "finish"]),
        pl.col("end_ns") == end_ns,
        pl.col("start_ns") >= begin_ns,
    )
    given = nodes.select("start_ns", "end_ns", *EDGES, "guess", "residual_ns", "meeting")
    # A path of no length where no operation ends the window.
    first, reach = (int(inside.item(0, "node")), end_ns) if inside.height else (0, begin_ns)
    walked = unpack_columns(native_path(pack_numbers(given), first, begin_ns, reach, WAIT_NS))
    pieces = _name_pieces(walked.reverse(), nodes, begin_ns)
    rest = pieces.get_column("part") == UNEXPLAINED
    return _guess_rests(pieces, rest.arg_true(), nodes) if rest.any() else pieces


def _guess_rests(pieces: pl.DataFrame, rests: pl.Series, nodes: pl.DataFrame) -> pl.DataFrame:
    """The pieces, with those that nothing recorded explains as HELD or GRAPH where likely."""
    asked = take_rows(pieces, rests)
    launch = nodes.get_column("launch").gather(asked.get_column("node"))
    calls = nodes.select(*PROCESS, called="name", call_ns="start_ns")
    asked = asked.hstack(take_rows(calls, launch))
    is_launched = pl.col("called").is_not_null()
    guess = asked.select(
        pl.when(is_launched & launches_graph(Texts(asked.get_column("called"))))
        .then(pl.lit(GRAPH))
        .when(is_launched & _is_held(asked, nodes))
        .then(pl.lit(HELD))
    ).to_series()
    is_guess = guess.is_not_null()
    rows, guess = rests.filter(is_guess), guess.drop_nulls()
    return pieces.with_columns(
        pieces.get_column("part").scatter(rows, guess),
        pieces.get_column("basis").scatter(rows, GUESSED),
    )


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
_MET, _OWN, _REST, _BEGINNING, _PREV, _LAUNCH, _WAIT, _GUESS = range(8)
_GAPS = {_PREV: GAP, _LAUNCH: LAUNCH, _WAIT: EVENT, _GUESS: EVENT}
_WAITED_BY = {"event": INFERRED, "timing": INFERRED, "guess": GUESSED}


def _name_pieces(walked: pl.DataFrame, nodes: pl.DataFrame, begin_ns: int) -> pl.DataFrame:
    """The pieces with their part and basis, cut to the window.

    A hundred thousand pieces are of a few sorts, each of them a sort of node and a step from it:
    those are named, and a piece has its sort's names.
    """
    told = nodes.select("kind", "wait_by", "name", launched=pl.col("launch").is_not_null())
    told = take_rows(told, walked.get_column("node"))
    names = Texts(told.get_column("name"))
    told = told.select(
        "kind",
        "wait_by",
        "launched",
        comm=names.match(PATTERN),
        waits=names.match(WAITS),
        step=walked.get_column("step"),
    )
    sort, sorts = number_groups(told, told.columns)
    named = _name_sorts(sorts)
    pieces = walked.select(
        pl.max_horizontal("start_ns", pl.lit(begin_ns, pl.Int64)),
        "end_ns",
        part=named.get_column("part").gather(sort),
        node="node",
        basis=named.get_column("basis").gather(sort),
    )
    return pieces.filter(pl.col("end_ns") > pl.col("start_ns"))


def _name_sorts(sorts: pl.DataFrame) -> pl.DataFrame:
    """Of each sort of node and step from it the part of the path, and on what that rests."""
    kind, step = pl.col("kind"), pl.col("step")
    is_host = kind.is_in(["call", "finish"])
    own = (
        pl.when(is_host)
        .then(pl.lit(CALL))
        .when(kind.is_in(["memcpy", "memset"]))
        .then(pl.lit(COPY))
        .when((kind == "other") | pl.col("waits"))
        .then(pl.lit(OTHER))
        .when(pl.col("comm"))
        .then(pl.lit(COMM))
        .otherwise(pl.lit(COMPUTE))
    )
    between = (
        pl.when(kind == "call")
        .then(pl.lit(HOST))
        .when(kind == "finish")
        .then(pl.when(step == _PREV).then(pl.lit(CALL)).otherwise(pl.lit(RETURN)))
        .otherwise(step.replace_strict(_GAPS, default=None, return_dtype=pl.String))
    )
    is_rest, unlaunched = step.is_in([_REST, _BEGINNING]), ~is_host & ~pl.col("launched")
    return sorts.select(
        part=pl.when(step == _MET)
        .then(pl.lit(COMM))
        .when(step == _OWN)
        .then(own)
        .when(~is_rest)
        .then(between)
        .when(unlaunched)
        .then(pl.lit(UNRECORDED))
        .otherwise(pl.lit(UNEXPLAINED)),
        basis=pl.when(step == _WAIT)
        .then(pl.col("wait_by").replace_strict(_WAITED_BY, default=RECORDED))
        .when(step == _GUESS)
        .then(pl.lit(GUESSED))
        .when(~is_rest)
        .then(pl.lit(RECORDED))
        .when(unlaunched)
        .then(pl.lit(GUESSED)),
    )


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
