"""Times of any clock on the trace's one clock, by its snapshots of all clocks.

As Perfetto does it (docs/concepts/clock-sync.md): a time is moved by what the last snapshot before
it says of the two clocks; where no snapshot has both, by way of a third one.
"""

from __future__ import annotations

import polars as pl

_BOOT = 6  # ClockSnapshot.Clock.BuiltinClocks.BOOTTIME: the trace's clock unless it names another
_UNNAMED = 0


class Clocks:
    """All snapshots of a trace."""

    def __init__(self, snapshots: pl.DataFrame) -> None:
        named = snapshots.get_column("primary").drop_nulls()
        self._target = int(named[0]) if named.len() else _BOOT
        self._times: dict[int, dict[int, int]] = {}  # by clock and snapshot
        self._clocks: dict[int, list[int]] = {}  # by snapshot
        for snapshot, clock, time in snapshots.select("snapshot", "clock", "time").iter_rows():
            self._times.setdefault(clock, {})[snapshot] = time
            self._clocks.setdefault(snapshot, []).append(clock)
        self._ways: dict[int, list[tuple[pl.Series, pl.Series]] | None] = {}

    def place(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """The frame with `time` on the trace's clock, without `clock`; how many rows had to go."""
        used = frame.get_column("clock").unique().to_list()
        foreign = {clock for clock in used if clock not in (_UNNAMED, self._target)}
        if not foreign or not self._times:
            return frame.drop("clock"), 0
        parts = []
        for (clock,), part in frame.with_row_index("row").group_by("clock"):
            way = self._find_way(int(clock)) if clock in foreign else []
            if way is None:
                continue
            moved = part.get_column("time")
            for here, there in way:
                at = (here.search_sorted(moved, side="right").cast(pl.Int64) - 1).clip(0)
                moved = moved - here.gather(at) + there.gather(at)
            parts.append(part.with_columns(moved.alias("time")))
        placed = pl.concat(parts).sort("row") if parts else frame.clear().with_row_index("row")
        return placed.drop("clock", "row"), frame.height - placed.height

    def _find_way(self, start: int) -> list[tuple[pl.Series, pl.Series]] | None:
        """Times of one clock and the next, in order, from a clock to the trace's; None without."""
        if start not in self._ways:
            self._ways[start] = self._search(start)
        return self._ways[start]

    def _search(self, start: int) -> list[tuple[pl.Series, pl.Series]] | None:
        came_from: dict[int, int] = {start: start}
        todo = [start]
        for here in todo:
            if here == self._target:
                break
            for snapshot in self._times.get(here, ()):
                for other in self._clocks[snapshot]:
                    if other not in came_from:
                        came_from[other] = here
                        todo.append(other)
        if self._target not in came_from:
            return None
        way, at = [], self._target
        while at != start:
            way.append(self._pair(came_from[at], at))
            at = came_from[at]
        return way[::-1]

    def _pair(self, here: int, there: int) -> tuple[pl.Series, pl.Series]:
        theirs = self._times[there]
        both = sorted((t, theirs[s]) for s, t in self._times[here].items() if s in theirs)
        return (
            pl.Series([t for t, _ in both], dtype=pl.Int64),
            pl.Series([t for _, t in both], dtype=pl.Int64),
        )
