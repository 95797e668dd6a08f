"""How copies use the link between host and GPU: pinned or not, on how many streams, how full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from sightline.core.algebra.intervals import measure_cover, measure_cover_between
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.roofline.links import find_host_link
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.copies import SMALL_BYTES

_DEVICE = ["rank", "device_id"]
_LANE = [*_DEVICE, "stream_id"]
_LENGTH = pl.col("end_ns") - pl.col("start_ns")
# Nearly all of the copies' time (ours).
_NEARLY_ALL = 0.9
# A link that copies keep busy for so much of the window is what bounds it (ours: what is left for
# anything else is a fourth).
FULL_PCT = 75.0
_OTHER_WAY = {"HtoD": "DtoH", "DtoH": "HtoD"}


class Other(NamedTuple):
    """Copies of the other direction: how long they take, and how long both run at once, ns.

    `last_ns` is the longest copy of the direction that takes less: the last part comes back alone.
    """

    ns: int = 0
    both_ns: int = 0
    last_ns: int = 0
    is_pinned: bool = False


NOTHING = Other()


@dataclass(frozen=True)
class LinkUse:
    """What some copies make of the link.

    `busy_ns` is how long the link is busy in their direction on the device where that is most;
    `pct` how long it is in either, of the window; `streams` how many they are on;
    `same_stream_pct` how many of them have all kernels of their device on their own stream;
    `other` what copies of the other direction take.
    `least_ns` is what their bytes take on the link from pinned memory, 0 where that is not known:
    nothing hides more than what is beside it. `takes_turns`: whether their GPU has one engine for
    copies, on which the two directions cannot run at once; `idle_ns` what of the window the link
    is not busy in either direction: with one engine nothing hides more.
    """

    is_pinned: bool
    streams: int
    busy_ns: int
    pct: float
    same_stream_pct: float
    way: str | None = None
    other: Other = NOTHING
    least_ns: int = 0
    takes_turns: bool = False
    idle_ns: int = 0

    @property
    def floor_ns(self) -> int:
        """What must remain of them however well they are hidden."""
        return self.busy_ns if self.is_limit else 0 if self.is_pinned else self.least_ns

    @property
    def is_limit(self) -> bool:
        """Whether the program does already what hides copies: only the link can be faster."""
        is_full = self.pct >= FULL_PCT and self.way in _OTHER_WAY
        return self.is_pinned and self.streams > 1 and is_full

    @property
    def turns_ns(self) -> int | None:
        """What both directions at once would save, part by part as they are; None: they do that."""
        if not self.is_limit or self.takes_turns or 2 * self.other.both_ns >= self.other.ns:
            return None
        return max(0, min(self.busy_ns, self.other.ns) - self.other.both_ns - self.other.last_ns)

    @property
    def is_told_by_other(self) -> bool:
        """Whether the direction that takes longer has the same to say of the same time."""
        is_same = self.turns_ns is not None or self.is_one_way
        return is_same and self.other.is_pinned and self.other.ns > self.busy_ns

    @property
    def is_one_way(self) -> bool:
        """Whether copies of both directions fill a link on which they take turns."""
        return self.is_limit and self.takes_turns and self.other.ns > 0

    def bound_gain(self, most_ns: int) -> int:
        """What hiding these copies may save of the `most_ns` that they are seen."""
        if self.turns_ns is not None:
            return self.turns_ns
        return min(most_ns, self.idle_ns) if self.is_one_way else most_ns

    def describe(self) -> list[str]:
        """How they lie beside the kernels and beside each other, in words."""
        lines = []
        if self.is_limit:
            lines.append(
                f"they are pinned, on {format_several(self.streams, 'stream')}; copies keep the "
                f"link busy for {format_pct(self.pct)} of the window: the link is the limit"
            )
        else:
            beside = "and so cannot" if self.same_stream_pct else "so streams let them"
            lines.append(
                f"{format_pct(self.same_stream_pct)} of these copies share their stream with all "
                f"kernels, {beside} overlap them"
            )
        if self.floor_ns and not self.is_limit:
            lines.append(
                f"from pinned memory, at what the link reaches, their bytes take "
                f"{format_ns(self.floor_ns)}"
            )
        if self.is_limit and self.other.ns:
            lines.append(
                f"{_OTHER_WAY[self.way or '']} copies take {format_ns(self.other.ns)} beside them, "
                f"and both directions run at once for {format_ns(self.other.both_ns)}"
            )
        if self.is_one_way:
            lines.append("the GPU has one copy engine: its two directions cannot run at once")
        if self.turns_ns is not None:
            lines.append("nothing overlaps the last part's way back: smaller parts save more")
        return lines

    def advise(self) -> str:
        """What is left to do where the link is the limit."""
        less = "send fewer bytes (keep data on the GPU, smaller types)"
        if self.is_one_way:
            return f"overlap all kernels with the copies, in smaller parts; beyond that, {less}"
        if self.turns_ns is None:
            return f"{less}, or use a faster link"
        return (
            "let the two directions run at once: send one part while the previous one is copied "
            f"back (needs two copy engines; issue the copies part by part); else {less}"
        )


def measure_link(run: Run, copies: pl.DataFrame) -> LinkUse:
    """How these copies (rows of `select_copies`) use the link."""
    ways = copies.get_column("copy_kind").unique().to_list()
    way = ways[0] if len(ways) == 1 else None
    busy = find_largest(measure_cover(copies, _DEVICE), "covered_ns")
    window = max(find_largest(run.ask("breakdown"), "window_ns"), 1)
    link = _measure_link(run)
    return LinkUse(
        is_pinned=_is_pinned(copies),
        streams=find_largest(
            copies.group_by(_DEVICE).agg(n=pl.col("stream_id").n_unique()).cast({"n": pl.Int64}),
            "n",
        ),
        busy_ns=busy,
        pct=100 * link / window,
        same_stream_pct=_share_of_same_stream(run, copies),
        way=way,
        other=_measure_other(run, copies, way),
        least_ns=0 if way is None else _measure_least(run, copies),
        takes_turns=_has_one_engine(run, copies),
        idle_ns=max(0, window - link),
    )


def _has_one_engine(run: Run, copies: pl.DataFrame) -> bool:
    """Whether every GPU of these copies is known to have one copy engine."""
    engines = (
        copies.select(_DEVICE)
        .unique()
        .join(run.table("devices", [*_DEVICE, "copy_engines"]), on=_DEVICE, how="left")
    )
    return bool((engines.get_column("copy_engines") == 1).fill_null(value=False).all())


def _measure_least(run: Run, copies: pl.DataFrame) -> int:
    """What these copies' bytes take at the link's rate, on the device where that is most, ns.

    A rate that some copy reached here is one that the link has.
    """
    if not {"HtoD", "DtoH"} & set(copies.get_column("copy_kind").unique().to_list()):
        return 0
    reached = 1e9 * find_fastest_rate(run)
    most = 0
    for device in run.table("devices").iter_rows(named=True):
        rate = find_host_link(device)
        mine = copies.filter(
            pl.col("rank") == device["rank"], pl.col("device_id") == device["device_id"]
        )
        if rate is None or mine.is_empty():
            continue
        least = pl.min_horizontal(_LENGTH, pl.col("bytes") * 1e9 / max(rate, reached))
        most = max(most, int(mine.select(least.sum()).item() or 0))
    return most


def find_fastest_rate(run: Run) -> float:
    """The fastest rate at which a copy between host and device ran here, bytes/ns; 0 for none."""
    ops = run.table("device_ops", ["copy_kind", "bytes", "start_ns", "end_ns"])
    large = ops.filter(
        pl.col("copy_kind").is_in(list(_OTHER_WAY)) & (pl.col("bytes") >= SMALL_BYTES)
    )
    return float(large.select((pl.col("bytes") / _LENGTH).max()).item() or 0.0)


def _measure_link(run: Run) -> int:
    """How long copies from or to the host run, on the device where that is longest, ns."""
    ops = run.table("device_ops", [*_DEVICE, "copy_kind", "start_ns", "end_ns"])
    both = ops.filter(pl.col("copy_kind").is_in(list(_OTHER_WAY)))
    return find_largest(measure_cover(both, _DEVICE), "covered_ns")


def _is_pinned(copies: pl.DataFrame) -> bool:
    """Whether nearly all of the copies' time is from or to pinned memory."""
    pinned = pl.any_horizontal(pl.col("src_kind") == "pinned", pl.col("dst_kind") == "pinned")
    whole = max(sum_column(copies.select(ns=_LENGTH), "ns"), 1)
    return sum_column(copies.filter(pinned).select(ns=_LENGTH), "ns") >= _NEARLY_ALL * whole


def _measure_other(run: Run, copies: pl.DataFrame, way: str | None) -> Other:
    """What copies of the other direction take."""
    back = _OTHER_WAY.get(way or "")
    columns = [*_DEVICE, "copy_kind", "start_ns", "end_ns", "src_kind", "dst_kind"]
    ops = run.table("device_ops", columns)
    other = ops.filter(pl.col("copy_kind") == back) if back else ops.clear()
    if other.is_empty():
        return NOTHING
    both = measure_cover_between(copies, "start_ns", "end_ns", other, _DEVICE)
    lengths = [frame.select(ns=_LENGTH) for frame in (copies, other)]
    lesser = min(lengths, key=lambda frame: sum_column(frame, "ns"))
    return Other(
        sum_column(lengths[1], "ns"), int(both.sum()), find_largest(lesser, "ns"), _is_pinned(other)
    )


def _share_of_same_stream(run: Run, copies: pl.DataFrame) -> float:
    """How many of the copies are on the only stream of their device that computes, %.

    Where several do, a copy on one can overlap the kernels on the others.
    """
    lanes = list_class(run, COMPUTE, _LANE).select(_LANE).unique()
    alone = lanes.filter(pl.len().over(_DEVICE) == 1)
    shared = copies.join(alone, on=_LANE, how="semi", nulls_equal=True)
    return 100 * shared.height / max(copies.height, 1)
