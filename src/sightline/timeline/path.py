"""The critical path through a dependency graph, and how much slack everything else has.

Going back from the last end: a node began when it did because of one of the things that it waited
for (the latest); the path follows that one. The time between the two is an edge of the path.
"""

from __future__ import annotations

import polars as pl

from sightline.algebra.latest import find_latest
from sightline.algebra.lookup import take_rows
from sightline.timeline.classes import is_communication
from sightline.timeline.graph import LATE_NS, PROCESS, WAIT_NS

_INFINITE = 2**62

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
# An operation that nothing else held, whose launch the recording lacks: the host's lateness, by
# guess.
UNRECORDED = "launch not recorded"
# An operation that was launched, and that nothing recorded held, while a call of its own process
# waited for the device: the wait is in the driver or on the device, by guess.
HELD = "launched, not started"
# Of such a piece, what the call must cover (ours: all but what lies between two calls).
_COVERED = 0.9

# On what a piece rests. An edge into another stream is inferred where an event wait or the timing
# tells of it (`graph`).
RECORDED, INFERRED, GUESSED = "recorded", "inferred", "guessed"
_BY = {"event": INFERRED, "timing": INFERRED, "guess": GUESSED}
Piece = tuple[int, int, str, int, "str | None"]


def trace_critical_path(nodes: pl.DataFrame, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """Pieces of the path in order of time: start_ns, end_ns, part, node, basis. They leave no hole.

    The path is cut to `begin_ns` .. `end_ns`; where nothing recorded leads further back, the rest
    is 'not explained', without a basis, or its launch was not recorded.
    """
    columns = _to_lists(nodes)
    start = columns["start_ns"]
    last_of = _find_meeting_ends(nodes)
    inside = nodes.filter(
        ~pl.col("kind").is_in(["call", "finish"]),
        pl.col("end_ns") == end_ns,
        pl.col("start_ns") >= begin_ns,
    )
    pieces: list[Piece] = []
    if inside.is_empty():
        return _to_frame(pieces)
    node = int(inside.item(0, "node"))
    reach = end_ns  # everything from here on is explained
    while reach > begin_ns:
        kind = columns["kind"][node]
        meeting = columns["meeting"][node]
        first = last_of.get(meeting, node) if meeting is not None else node
        if first != node:  # a collective: it ended because its last member had come
            pieces.append((start[first], reach, COMM, node, RECORDED))
            reach, node = start[first], first
            continue
        part = _name_own_part(kind, columns["comm"][node])
        if reach > start[node]:
            pieces.append((start[node], reach, part, node, RECORDED))
        reach = start[node]
        before, at, edge = _find_binding(columns, node)
        if before is None:
            break
        residual = columns["residual_ns"][node]
        if edge == "guess":
            residual = max(reach - at - WAIT_NS, 0)
        if residual:
            pieces.append((reach - residual, reach, *_name_rest(columns, node)))
        reach -= residual
        if reach > at:
            told = columns["wait_by"][node] if edge == "wait" else edge
            basis = _BY.get(told or "", RECORDED)
            pieces.append((at, reach, _name_edge_part(kind, edge), node, basis))
        # A launch leads back to its call's begin, which is where the path then goes on.
        # Operations of one stream may overlap: then the path follows the earlier one from here.
        reach, node = min(at, reach), before
    if reach > begin_ns:
        pieces.append((begin_ns, reach, *_name_rest(columns, node)))
    return _name_held(_to_frame(pieces, begin_ns), nodes)


def _name_held(pieces: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """The pieces with what nothing explains as HELD where one call waited all the while."""
    is_rest = pieces.get_column("part") == UNEXPLAINED
    if not is_rest.any():
        return pieces
    launch = nodes.get_column("launch").gather(pieces.get_column("node"))
    start, length = pl.col("start_ns"), pl.col("end_ns") - pl.col("start_ns")
    rest = pieces.with_columns(
        *(nodes.get_column(c).gather(launch) for c in PROCESS),
        row=pl.int_range(pl.len()),
        # A call that covers enough has begun by then.
        by_ns=start + ((1 - _COVERED) * length).cast(pl.Int64),
    ).filter(is_rest & launch.is_not_null(), length > LATE_NS)
    returns = nodes.filter(pl.col("kind") == "finish")
    began = nodes.get_column("start_ns").gather(returns.get_column("prev"))
    waits = returns.select(*PROCESS, began=began, returned="end_ns").drop_nulls("began")
    last = find_latest(rest, "by_ns", waits, "began", PROCESS)
    covered = pl.min_horizontal("end_ns", "returned") - pl.max_horizontal("start_ns", "began")
    held = rest.hstack(take_rows(waits.select("began", "returned"), last))
    held = held.drop_nulls("began").filter(covered >= _COVERED * length)
    is_held = pl.int_range(pl.len()).is_in(held.get_column("row").implode())
    return pieces.with_columns(
        part=pl.when(is_held).then(pl.lit(HELD)).otherwise("part"),
        basis=pl.when(is_held).then(pl.lit(GUESSED)).otherwise("basis"),
    )


def _name_rest(columns: dict[str, list], node: int) -> tuple[str, int, str | None]:  # type: ignore[type-arg]
    """Part, node and basis of what no edge explains of a node's start."""
    is_op = columns["kind"][node] not in ("call", "finish")
    if is_op and columns["launch"][node] is None:
        return UNRECORDED, node, GUESSED
    return UNEXPLAINED, node, None


def _to_frame(pieces: list[Piece], begin_ns: int = 0) -> pl.DataFrame:
    frame = pl.DataFrame(
        pieces[::-1],
        schema={
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "part": pl.String,
            "node": pl.Int64,
            "basis": pl.String,
        },
        orient="row",
    )
    cut = frame.with_columns(pl.max_horizontal("start_ns", pl.lit(begin_ns, pl.Int64)))
    return cut.filter(pl.col("end_ns") > pl.col("start_ns"))


def _to_lists(nodes: pl.DataFrame) -> dict[str, list]:  # type: ignore[type-arg]
    wanted = nodes.select(
        "kind",
        "start_ns",
        "end_ns",
        "prev",
        "prev_lag_ns",
        "launch",
        "launch_lag_ns",
        "wait",
        "wait_lag_ns",
        "wait_by",
        "guess",
        "residual_ns",
        "meeting",
        comm=is_communication(pl.col("name")),
    )
    return {c.name: c.to_list() for c in wanted.get_columns()}


def _find_meeting_ends(nodes: pl.DataFrame) -> dict[int, int]:
    """For each collective the member that came last."""
    last = (
        nodes.drop_nulls("meeting")
        .sort("start_ns", "node")
        .unique("meeting", keep="last", maintain_order=True)
    )
    return dict(last.select("meeting", "node").iter_rows())


def _find_binding(c: dict[str, list], node: int) -> tuple[int | None, int, str]:  # type: ignore[type-arg]
    """What a node waited for longest, the moment of that, and which edge it is."""
    found: tuple[int, int, int, str] | None = None
    for edge, times in (("wait", "end_ns"), ("launch", "start_ns"), ("prev", "end_ns")):
        before = c[edge][node]
        if before is None:
            continue
        at = c[times][before]
        arrives = at + c[f"{edge}_lag_ns"][node]
        if found is None or arrives > found[0]:
            found = (arrives, before, at, edge)
    guess = c["guess"][node]
    # A replay may move what was guessed, since it does not hold anything back there.
    if guess is not None and c["end_ns"][guess] <= c["start_ns"][node]:
        at = c["end_ns"][guess]
        if found is None or at > found[0]:
            return guess, at, "guess"
    return (None, 0, "") if found is None else found[1:]


def _name_own_part(kind: str, comm: bool) -> str:
    if kind in ("call", "finish"):
        return CALL
    if kind in ("memcpy", "memset"):
        return COPY
    return COMM if comm else COMPUTE


def _name_edge_part(kind: str, edge: str) -> str:
    if kind == "call":
        return HOST
    if kind == "finish":
        return CALL if edge == "prev" else RETURN
    return {"prev": GAP, "launch": LAUNCH, "wait": EVENT, "guess": EVENT}[edge]


def compute_slack(nodes: pl.DataFrame) -> pl.Series:
    """How many ns later each node could end without making the end of the run later."""
    c = _to_lists(nodes)
    n = nodes.height
    end, start, residual = c["end_ns"], c["start_ns"], c["residual_ns"]
    is_op = (~nodes.get_column("kind").is_in(["call", "finish"])).to_list()
    last = max((e for e, op in zip(end, is_op, strict=True) if op), default=0)
    late = [last - e if op else _INFINITE for e, op in zip(end, is_op, strict=True)]
    members = dict(
        nodes.drop_nulls("meeting")
        .group_by("meeting")
        .agg("node", pl.col("start_ns").max())
        .rows_by_key("meeting", unique=True)
    )
    spare_of: dict[int, int] = {}
    for i in range(n - 1, -1, -1):
        due = start[i] - residual[i] + late[i]  # the latest moment for what it waits for
        meeting = c["meeting"][i]
        if meeting is not None:
            # What follows any member has been seen by now: all end when the last has come.
            together, latest = members[meeting]
            if meeting not in spare_of:
                spare_of[meeting] = min(late[m] for m in together)
            due = latest - residual[i] + spare_of[meeting]
        for edge, times in (("prev", end), ("launch", start), ("wait", end)):
            before = c[edge][i]
            if before is not None:
                spare = due - times[before] - c[f"{edge}_lag_ns"][i]
                if spare < late[before]:
                    late[before] = spare
    return pl.Series("slack_ns", [None if v >= _INFINITE // 2 else v for v in late], pl.Int64)
