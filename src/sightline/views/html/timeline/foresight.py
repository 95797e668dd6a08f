"""Events as what a reader of the page cannot foresee: times from other events, names from callers.

A range begins soon after the range around it or after the one before it, and ends soon after the
last range within it; a kernel begins soon after its launch, or when its stream is free; and what a
call launches follows from who calls. Only the differences from that are in the page, in order of
names, since ranges of one name behave alike. web/src/report/timeline/unpack.ts undoes it exactly:
nothing here is rounded, and a bad guess costs bytes, not truth.

`benchmarks/README.md` says what it saves on real recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sightline.core.page.pack import Entry, Packed, deflate_column

# What the start of a lane's events is counted from: the end of the event before, the start of the
# event around it in the lane above if that is later, the start of its call, or the end of its call
# or of the event before, whichever is later. Places in this order are in the page.
PREVIOUS, ABOVE, CALL, QUEUE = range(4)
# The page settles ranges within ranges by functions that call themselves: so deep at most.
# Chromium's stack holds some 10 000 such calls, and Firefox's more.
MOST_NESTED = 1_000
# Numbers of pairs of names up to which each has a place in an array of 8 bytes each: 2,000 names.
MOST_COUNTED = 2**22


@dataclass
class _Events:
    """Columns of the events; `lanes` are the first row of each lane and the row after its last."""

    start: np.ndarray
    end: np.ndarray
    name: np.ndarray
    call: np.ndarray  # row of the launching call, -1 for none
    lanes: list[tuple[int, int]]
    before: np.ndarray  # end of the event before in the lane, 0 for the first


def pack_events(
    events: pl.DataFrame, kinds: Sequence[str], packed: Packed
) -> tuple[dict[str, Entry], list[int]]:
    """Entries of the columns of times, names and links, and what each lane's starts count from.

    `events` as Timeline has them, `kinds` of the tracks. All in ns from the page's origin.
    """
    start, end, name, link = (
        events.get_column(c).to_numpy().astype(np.int64, copy=False)
        for c in ("start_ns", "end_ns", "name", "link")
    )
    tracks, lanes = _find_lanes(events)
    before = np.empty_like(end)
    before[1:] = end[:-1]
    before[[first for first, _ in lanes]] = 0
    rows = _Events(start, end, name, link - 1, lanes, before)
    parent, steps, bases = _find_parents(rows, tracks, kinds)
    for place, track in enumerate(tracks):
        if kinds[track] == "stream":
            bases[place] = _choose_base(rows, slice(*lanes[place]))
    gap = np.empty_like(start)
    for lane, base in zip(lanes, bases, strict=True):
        at = slice(*lane)
        gap[at] = start[at] - _foresee(rows, at, base, parent)
    nested = np.flatnonzero(parent >= 0)
    last = np.full(start.size, -1)
    last[parent[nested]] = nested  # of several the last one stays
    tail = end - np.where(last >= 0, end[last], start)
    order = np.argsort(
        name.astype(np.uint16 if name.max(initial=0) < 2**16 else np.int64), kind="stable"
    )
    columns = {
        "link": packed.add(link, delta=True),
        "up": packed.add(steps),
        "gap": packed.add(gap[order]),
        "tail": packed.add(tail[order]),
    }
    return columns | _pack_names(rows, parent, tracks, kinds, packed), bases


def _find_lanes(events: pl.DataFrame) -> tuple[list[int], list[tuple[int, int]]]:
    """The track of each lane, and its rows."""
    track, lane = (events.get_column(c).to_numpy() for c in ("track", "lane"))
    if not track.size:
        return [], []
    cuts = np.flatnonzero((np.diff(track) != 0) | (np.diff(lane) != 0)) + 1
    firsts = [0, *cuts.tolist()]
    return [int(track[f]) for f in firsts], list(
        zip(firsts, [*firsts[1:], track.size], strict=True)
    )


def _find_parents(
    rows: _Events, tracks: list[int], kinds: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """For each event the row of the last one of the lane above that begins before it, or -1.

    Then, for each event of lanes with a lane above, how many events of that it moves on; and for
    each lane whether it has one: ABOVE or PREVIOUS.
    """
    parent = np.full(rows.start.size, -1)
    steps: list[np.ndarray] = [np.empty(0, np.int64)]
    bases = [PREVIOUS] * len(tracks)
    depth = 0
    for place in range(1, len(tracks)):
        depth += 1
        is_inner = tracks[place] == tracks[place - 1] and kinds[tracks[place]] == "thread"
        if not is_inner or depth == MOST_NESTED:
            depth = 0
            continue
        first, end = rows.lanes[place - 1]
        own = slice(*rows.lanes[place])
        found = np.searchsorted(rows.start[first:end], rows.start[own], side="right") - 1
        parent[own] = np.where(found >= 0, found + first, -1)
        steps.append(np.diff(found, prepend=-1))
        bases[place] = ABOVE
    return parent, np.concatenate(steps), bases


def _choose_base(rows: _Events, at: slice) -> int:
    """Of what the starts of a stream's lane can be counted from the one that leaves least."""
    if not (rows.call[at] >= 0).any():
        return PREVIOUS
    none = np.empty(0, np.int64)
    cost = {
        base: _measure_entropy(rows.start[at] - _foresee(rows, at, base, none))
        for base in (PREVIOUS, CALL, QUEUE)
    }
    return min(cost, key=lambda base: (cost[base], base))


def _foresee(rows: _Events, at: slice, base: int, parent: np.ndarray) -> np.ndarray:
    """When a reader thinks that the events of a lane begin."""
    before, call = rows.before[at], rows.call[at]
    if base == ABOVE:
        own = parent[at]
        return np.where(own >= 0, np.maximum(before, rows.start[own]), before)
    if base == CALL:
        return np.where(call >= 0, rows.start[call], before)
    if base == QUEUE:
        return np.where(call >= 0, np.maximum(before, rows.end[call]), before)
    return before


def _measure_entropy(numbers: np.ndarray) -> float:
    """Bits that the numbers take where each of their bytes is coded by how frequent it is."""
    rest = (numbers << 1) ^ (numbers >> 63)
    bits = 0.0
    while rest.any():
        counts = np.bincount(rest & 255, minlength=256)
        counts = counts[counts > 0]
        bits += float((counts * np.log2(rest.size / counts)).sum())
        rest = rest >> 8
    return bits


def _pack_names(
    rows: _Events,
    parent: np.ndarray,
    tracks: list[int],
    kinds: Sequence[str],
    packed: Packed,
) -> dict[str, Entry]:
    """Names as their place among those of the same caller, or as they are if that is shorter."""
    plain = {"name": deflate_column(rows.name)}
    context = np.where(parent >= 0, rows.name[parent] + 1, 0)
    for (first, end), track in zip(rows.lanes, tracks, strict=True):
        if kinds[track] == "stream":
            call = rows.call[first:end]
            caller = np.where(call >= 0, parent[call], -1)
            known = np.where(caller >= 0, caller, call)
            context[first:end] = np.where(call >= 0, rows.name[known] + 1, 0)
    place, sizes, names = _rank_within(context, rows.name)
    ranked = {
        "name": deflate_column(place),
        "known": deflate_column(sizes),
        "names": deflate_column(names),
    }
    best = min(plain, ranked, key=lambda columns: sum(len(data) for _, data in columns.values()))
    return {name: packed.add_deflated(column) for name, column in best.items()}


def _rank_within(context: np.ndarray, name: np.ndarray) -> tuple[np.ndarray, ...]:
    """Each name's place among those of its context, the most frequent first.

    Then how many names each context has, and these, one context after the other.
    """
    width = int(name.max(initial=0)) + 1
    code = context * width + name
    room = width * (width + 1)
    if room <= MOST_COUNTED:
        counts = np.bincount(code, minlength=room)
        pairs = np.flatnonzero(counts)
        counts = counts[pairs]
    else:
        pairs, counts = np.unique(code, return_counts=True)
    contexts, names = pairs // width, pairs % width
    order = np.lexsort((names, -counts, contexts))
    sizes = np.bincount(contexts, minlength=width + 1)
    firsts = np.cumsum(sizes) - sizes
    place = np.empty(pairs.size, np.int64)
    place[order] = np.arange(pairs.size) - firsts[contexts[order]]
    if room <= MOST_COUNTED:
        known = np.zeros(room, np.int64)
        known[pairs] = place
        return known[code], sizes, names[order]
    return place[np.searchsorted(pairs, code)], sizes, names[order]
