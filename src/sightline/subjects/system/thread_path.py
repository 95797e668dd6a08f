"""The critical path of a CPU thread: what it, and whoever it waited for, did all the while.

The algorithm is that of F. Giraldeau and M. Dagenais, "Wait Analysis of Distributed Systems Using
Kernel Tracing", IEEE Transactions on Parallel and Distributed Systems 27 (8), 2016: a thread that
sleeps waited for what woke it, so its sleep is replaced by what the waker did meanwhile, and the
waker's own sleeps by what their wakers did, never further back than the sleep began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

UNKNOWN = "unknown"
# States that end because something else ended them.
_SLEEPS = ("blocked", "uninterruptible", "off_cpu")


@dataclass(frozen=True)
class Link:
    """What ends a state: a thread at a moment, no later than the state's end."""

    tid: int
    at_ns: int
    kind: str = "wakeup"


@dataclass
class Lane:
    """States of a thread, in order of time and without holes, and what ended each.

    `origin` is the thread that made this one, where that was recorded.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    links: list[Link | None] = field(default_factory=list)
    origin: Link | None = None


@dataclass(frozen=True)
class Piece:
    """A part of the path. `row` is the state's place in its thread's lane, -1 where there is none.

    `depth` counts the waits that lead from the asked thread to this one.
    """

    start_ns: int
    end_ns: int
    tid: int
    state: str
    row: int
    depth: int


@dataclass
class _Walk:
    """Going back along one thread, from a moment to a bound."""

    tid: int
    at_ns: int
    bound_ns: int
    depth: int
    # Where the walk can go on if the thread has no past: pieces found by then, and the link there.
    pending: list[tuple[int, int, Link]] = field(default_factory=list)
    sleep: tuple[int, int] | None = None  # the sleep that it explains
    children: set[int] = field(default_factory=set)  # threads that it left for their makers


def trace_thread_path(
    find_lane: Callable[[int], Lane | None], tid: int, begin_ns: int, end_ns: int
) -> list[Piece]:
    """Pieces from `begin_ns` to `end_ns`, in order of time. They leave no hole.

    What no thread explains is `unknown`; a sleep whose end was not recorded keeps its state.
    """
    pieces: list[Piece] = []
    walks = [_Walk(tid, end_ns, begin_ns, 0)]
    open_sleeps: set[tuple[int, int]] = set()
    while walks:
        walk = walks[-1]
        if walk.at_ns <= walk.bound_ns:
            walks.pop()
            if walk.sleep is not None:
                open_sleeps.discard(walk.sleep)
            continue
        deeper = _step_back(find_lane, walk, pieces, open_sleeps)
        if deeper is not None:
            walks.append(deeper)
    return pieces[::-1]


def _step_back(
    find_lane: Callable[[int], Lane | None],
    walk: _Walk,
    pieces: list[Piece],
    open_sleeps: set[tuple[int, int]],
) -> _Walk | None:
    """One state back, which may need a walk along another thread first."""
    lane = find_lane(walk.tid)
    row = -1 if lane is None else bisect_left(lane.starts, walk.at_ns) - 1
    if lane is None or row < 0 or lane.ends[row] < walk.at_ns:
        _leave_dead_end(walk, pieces, None if lane is None else lane.origin)
        return None
    at, start = walk.at_ns, max(lane.starts[row], walk.bound_ns)
    state, link = lane.states[row], lane.links[row]
    is_end = lane.ends[row] == at and link is not None
    if is_end and link is not None and state in _SLEEPS and (walk.tid, row) not in open_sleeps:
        walk.at_ns = start
        return _enter_waker(walk, pieces, link, (walk.tid, row), at, start, open_sleeps)
    # Only what goes back in time: two threads that refer to each other lead nowhere.
    if is_end and link is not None and state not in _SLEEPS and walk.bound_ns < link.at_ns < at:
        walk.pending.append((len(pieces), at, link))
    pieces.append(Piece(start, at, walk.tid, state, row, walk.depth))
    walk.at_ns = start
    return None


def _enter_waker(
    walk: _Walk,
    pieces: list[Piece],
    link: Link,
    sleep: tuple[int, int],
    at: int,
    start: int,
    open_sleeps: set[tuple[int, int]],
) -> _Walk:
    """Go on along the thread that ended a sleep, until the sleep began."""
    came = max(min(link.at_ns, at), start)
    if came < at:  # it took time to arrive
        pieces.append(Piece(came, at, walk.tid, link.kind, -1, walk.depth))
    open_sleeps.add(sleep)
    return _Walk(link.tid, came, start, walk.depth + 1, sleep=sleep)


def _leave_dead_end(walk: _Walk, pieces: list[Piece], origin: Link | None) -> None:
    """The thread was not recorded before: go on where something came to it last, or give up."""
    if walk.pending:
        known, at, link = walk.pending.pop()
        del pieces[known:]
    elif (
        origin is not None
        and walk.bound_ns < origin.at_ns <= walk.at_ns
        and walk.tid not in walk.children
    ):
        at, link = walk.at_ns, origin
        walk.children.add(walk.tid)
    else:
        pieces.append(Piece(walk.bound_ns, walk.at_ns, walk.tid, UNKNOWN, -1, walk.depth))
        walk.at_ns = walk.bound_ns
        return
    came = max(link.at_ns, walk.bound_ns)
    if came < at:
        pieces.append(Piece(came, at, walk.tid, link.kind, -1, walk.depth))
    walk.tid, walk.at_ns = link.tid, came
