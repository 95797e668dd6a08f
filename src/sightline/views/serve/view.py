"""What a range of the timeline shows at a resolution: single events, and marks of several.

The same walk as web/src/report/timeline/model.ts makes over the events of an embedded page.
"""

from __future__ import annotations

import array
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence

from sightline.core.units import format_several
from sightline.errors import RequestError
from sightline.views.serve.index import Index

# Columns of an answer, little-endian, one after another.
ANSWER = (
    ("id", "d"),
    ("start", "d"),
    ("length", "d"),
    ("busy", "d"),
    ("name", "I"),
    ("count", "I"),
    ("class", "B"),
)
# A screen of 60 rows and 2 000 pixels has at most 60 000 marks, three times as wide as the screen;
# more is a request that no page makes.
MOST = 400_000


def window(
    index: Index, first: int, last: int, column_ns: float, lanes: Sequence[int], most: int = MOST
) -> bytes:
    """What the lanes show between two moments: a line of JSON (how many a lane), then ANSWER.

    Events shorter than `column_ns` that start in the same column of that width stand together.
    Raises RequestError where that is more than `most` entries.
    """
    found: dict[str, array.array[float]] = {name: array.array(code) for name, code in ANSWER}
    sizes = []
    for lane in lanes:
        before = len(found["id"])
        _walk(index, lane, first, last, column_ns, _into(index, found, most))
        sizes.append(len(found["id"]) - before)
    if sys.byteorder == "big":
        for values in found.values():
            values.byteswap()
    head = json.dumps({"lanes": list(lanes), "n": sizes}).encode()
    # The arrays of float64 come first, and begin at a multiple of 8 bytes, as the page wants it.
    head += b" " * (-(len(head) + 1) % 8) + b"\n"
    return head + b"".join(found[name].tobytes() for name, _ in ANSWER)


def _into(
    index: Index, found: dict[str, array.array[float]], most: int
) -> Callable[[int, int], None]:
    columns = index.columns
    start, end, before = columns["start"], columns["end"], columns["before"]
    names, classes = columns["name"], columns["class"]
    add = [found[name].append for name, _ in ANSWER]

    def take(a: int, b: int) -> None:
        """The events a to b, of one column of pixels, as one entry."""
        if len(found["id"]) >= most:
            raise RequestError(
                f"the range has more than {format_several(most, 'event')} at this resolution",
                hint="Ask for a shorter range or for wider columns.",
            )
        row = (
            a,
            start[a],
            end[b - 1] - start[a],
            before[b] - before[a],
            names[a],
            b - a,
            classes[a],
        )
        for append, value in zip(add, row, strict=True):
            append(value)

    return take


def _walk(
    index: Index, lane: int, first: int, last: int, wide: float, take: Callable[[int, int], None]
) -> None:
    start, end = index.columns["start"], index.columns["end"]
    for a, b in index.lanes[lane].extents:
        i = bisect_left(end, first, a, b)  # ends rise as starts do, since nothing overlaps
        while i < b and start[i] <= last:
            if end[i] - start[i] >= wide:
                take(i, i + 1)
                i += 1
                continue
            edge = (start[i] // wide + 1) * wide
            stop = i + 1
            if stop < b and start[stop] < edge:
                # Gallop first: the answer is mostly near.
                step = 1
                while stop + step < b and start[stop + step] < edge:
                    stop += step
                    step *= 2
                stop = bisect_left(start, edge, stop, min(stop + step, b))
            # Only the last can be wide: it reaches beyond the column.
            if stop - 1 > i and end[stop - 1] - start[stop - 1] >= wide:
                stop -= 1
            take(i, stop)
            i = stop
