"""How far the clocks of hosts are apart, from the packets that they sent each other.

A packet arrives after it was sent. So of what is added to one host's time to have the other's, each
packet that it sent is an upper bound at that time, and each that it received a lower one. With a
drift that is a straight line between two convex hulls: A. Duda, G. Harrus, Y. Haddad and
G. Bernard, "Estimating Global Time in Distributed Systems", ICDCS 1987; as traces of Linux are
aligned: B. Poirier, R. Roy and M. Dagenais, "Accurate Offline Synchronization of Distributed Traces
Using Kernel-Level Events", ACM SIGOPS Operating Systems Review 44 (3), 2010. The answer is the
middle of the steepest and the flattest line, and its uncertainty is how far any line between
the hulls is from it: a bound, as long as the drift is constant.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import numpy as np

# RFC 5905, section 7.2 allows a clock a drift of 500 parts per million.
MOST_DRIFT = 500e-6
_MOST_NS = 1 << 62  # 146 years: what is further off, or less sure, is of a damaged recording
Point = tuple[int, int]
# A rank's clock: `shift_ns` + `drift` × (t − `at_ns`) is what is added to a time t.
CLOCKS = {
    "rank": pl.Int64,
    "component": pl.Int64,
    "shift_ns": pl.Int64,
    "drift": pl.Float64,
    "at_ns": pl.Int64,
    "anchors": pl.Int64,
    "uncertainty_ns": pl.Int64,
}


@dataclass(frozen=True, order=True)
class Line:
    """What is added to a time t: `shift` + `drift` × (t − `at`), ns; it may be off by so much."""

    shift: int
    drift: float
    at: int
    uncertainty: int

    def invert(self) -> Line:
        """The way back."""
        drift = 1 / (1 + self.drift) - 1
        return Line(-self.shift, drift, self.at + self.shift, self.uncertainty)

    def follow(self, other: Line) -> Line:
        """This line, and from there the other."""
        arrived = self.at + self.shift - other.at
        shift = self.shift + other.shift + round(other.drift * arrived)
        drift = (1 + self.drift) * (1 + other.drift) - 1
        return Line(shift, drift, self.at, self.uncertainty + other.uncertainty)


@dataclass(frozen=True)
class PacketFit:
    """Clocks (columns `CLOCKS`), and how many packets told of clocks, or contradict each other."""

    clocks: pl.DataFrame
    packets: int
    contradictory: int


def fit_packet_clocks(packets: pl.DataFrame) -> PacketFit | None:
    """The clocks of ranks that packets went between, both ways; None where there are none.

    `packets` has sender, receiver (ranks), sent_ns and received_ns. Relative to the lowest rank of
    each component, along the links that are known best.
    """
    links: dict[int, dict[int, Line]] = {}
    told, contradictory, count = 0, 0, dict[int, int]()
    pair = (pl.min_horizontal("sender", "receiver"), pl.max_horizontal("sender", "receiver"))
    across = packets.filter(pl.col("sender") != pl.col("receiver"))
    groups = across.with_columns(low=pair[0], high=pair[1]).group_by("low", "high")
    for (low, high), frame in sorted(groups, key=lambda group: group[0]):
        away = frame.filter(pl.col("sender") == high).select("sent_ns", "received_ns")
        back = frame.filter(pl.col("sender") == low).select("received_ns", "sent_ns")
        if away.is_empty() or back.is_empty():
            continue
        line = find_line(away.rows(), back.rows())
        told += frame.height
        if line is None:
            contradictory += frame.height
            continue
        links.setdefault(high, {})[low] = line
        links.setdefault(low, {})[high] = line.invert()
        for rank in (low, high):
            count[rank] = count.get(rank, 0) + frame.height
    return PacketFit(_list_clocks(links, count), told, contradictory) if told else None


def find_line(
    above: Sequence[Point], below: Sequence[Point], most_drift: float = MOST_DRIFT
) -> Line | None:
    """The middle of all lines under the points `above` and over those `below`; None if none is.

    Points are times on a clock and on the reference's. A line is what to add to the first to have
    the second; of clocks that the points do not contradict as they are, nothing.
    """
    import numpy as np

    base = min(x for x, _ in (*above, *below))
    level = above[0][1] - above[0][0]
    upper = _find_hull([(x - base, y - x - level) for x, y in above], np.less)
    lower = _find_hull([(x - base, y - x - level) for x, y in below], np.greater)
    run, rise = upper[:, :1] - lower[:, 0], upper[:, 1:] - lower[:, 1]
    if (rise[run == 0] < 0).any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = rise / run
    steepest = min(slope[run > 0].min(initial=np.inf), most_drift)
    flattest = max(slope[run < 0].max(initial=-np.inf), -most_drift)
    if flattest > steepest:
        return None
    ends = [_find_heights(upper, lower, drift) for drift in (steepest, flattest)]
    shift, drift = sum(map(sum, ends)) / 4, (steepest + flattest) / 2
    if upper[:, 1].min() >= -level >= lower[:, 1].max():
        shift, drift = float(-level), 0.0
    span = max(float(upper[-1, 0]), float(lower[-1, 0]))
    # All lines between the hulls are, at either end, between those two.
    highest = (ends[1][1], _find_heights(upper - [span, 0], lower - [span, 0], steepest)[1])
    lowest = (ends[0][0], _find_heights(upper - [span, 0], lower - [span, 0], flattest)[0])
    here = (shift, shift + drift * span)
    off = max(max(h - v, v - low) for h, low, v in zip(highest, lowest, here, strict=True))
    half = round(span / 2)
    middle = round(shift + drift * half) + level
    return Line(middle, drift, base + half, max(1, math.ceil(off)))


def _find_heights(upper: np.ndarray, lower: np.ndarray, drift: float) -> tuple[float, float]:
    """Where lines of a slope between the hulls are at 0: from, to."""
    low = (lower[:, 1] - drift * lower[:, 0]).max()
    return float(low), float((upper[:, 1] - drift * upper[:, 0]).min())


def _find_hull(points: list[Point], is_beyond: Callable[[int, int], bool]) -> np.ndarray:
    """The hull of points on one side, in order of x (A. M. Andrew's monotone chain, 1979)."""
    import numpy as np

    hull: list[Point] = []
    sign = 1 if is_beyond is np.less else -1
    for x, y in sorted(points, key=lambda point: (point[0], sign * point[1])):
        if hull and hull[-1][0] == x:
            continue
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if sign * ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) > 0:
                break
            hull.pop()
        hull.append((x, y))
    return np.array(hull, np.float64)


def _list_clocks(links: dict[int, dict[int, Line]], count: dict[int, int]) -> pl.DataFrame:
    """The clock of each rank on that of the lowest of its component, by the surest way."""
    found: dict[int, tuple[int, Line]] = {}
    for number, root in enumerate(rank for rank in sorted(links) if rank not in found):
        # (uncertainty, rank, line to the root)
        waiting = [(0, root, Line(0, 0.0, 0, 0))]
        while waiting:
            _, rank, line = heapq.heappop(waiting)
            if rank in found:
                continue
            found[rank] = number, line
            for other in links[rank]:
                way = links[other][rank].follow(line)
                if other not in found and max(abs(way.shift), way.uncertainty) < _MOST_NS:
                    heapq.heappush(waiting, (way.uncertainty, other, way))
    rows = [
        (rank, component, line.shift, line.drift, line.at, count[rank], max(line.uncertainty, 1))
        for rank, (component, line) in sorted(found.items())
    ]
    return pl.DataFrame(rows, schema=CLOCKS, orient="row")
