"""Samples in memory since the last checkpoint: columns that grow, 20 bytes each sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from sightline.cluster.names import Series

_SCHEMA = {
    "host": pl.String, "metric": pl.String, "scope": pl.String, "element": pl.String,
    "unit": pl.String, "time_ns": pl.Int64, "value": pl.Float64,
}  # fmt: skip
_JOIN = 512  # blocks of single requests that become one


class SeriesTable:
    """All series that were seen, numbered from 0."""

    def __init__(self, known: Iterable[Series] = ()) -> None:
        self.rows: list[Series] = []
        self._numbers: dict[Series, int] = {}
        self._by_host: dict[tuple[str, str], list[int]] = {}
        for one in known:
            self.add(one)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, series: Series) -> int | None:
        """Its number; None of one that is new."""
        return self._numbers.get(series)

    def add(self, series: Series) -> int:
        """Its number, a new one if need be."""
        number = self._numbers.get(series)
        if number is None:
            number = self._numbers[series] = len(self.rows)
            self.rows.append(series)
            self._by_host.setdefault((series.cluster, series.host), []).append(number)
        return number

    def list_hosts(self, cluster: str) -> list[str]:
        """The nodes of a cluster, by name."""
        return sorted(host for own, host in self._by_host if own == cluster)

    def list_of(self, cluster: str, hosts: Iterable[str]) -> list[int]:
        """The numbers of all series of some nodes."""
        return [n for host in hosts for n in self._by_host.get((cluster, host), ())]


class Samples:
    """Samples as three columns: number of the series (int32), time in ns, value."""

    def __init__(self) -> None:
        self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.count = 0

    def add(self, numbers: np.ndarray, times: np.ndarray, values: np.ndarray) -> None:
        """Add a block; all three have one length."""
        self._blocks.append((numbers, times, values))
        self.count += len(numbers)
        if len(self._blocks) >= 2 * _JOIN:
            large = [b for b in self._blocks if len(b[0]) >= 1 << 20]
            small = [b for b in self._blocks if len(b[0]) < 1 << 20]
            self._blocks = [*large, _join(small)]

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All of it, in no order."""
        return _join(list(self._blocks))

    def select(self, numbers: Sequence[int], first_ns: int, last_ns: int) -> tuple[np.ndarray, ...]:
        """The samples of some series in a span."""
        wanted = np.asarray(numbers, np.int32)
        found = []
        for block in list(self._blocks):
            keep = (block[1] >= first_ns) & (block[1] <= last_ns) & np.isin(block[0], wanted)
            if keep.any():
                found.append(tuple(column[keep] for column in block))
        return _join(found)  # type: ignore[arg-type]


def make_frame(
    table: SeriesTable, numbers: np.ndarray, times: np.ndarray, values: np.ndarray
) -> pl.DataFrame:
    """Samples with what each is of, sorted by node, metric, part and time.

    Of samples of one series at one time the last that came in counts.
    """
    used, at = np.unique(numbers, return_inverse=True)
    rows = [table.rows[n] for n in used.tolist()]
    order = sorted(range(len(rows)), key=lambda n: rows[n][1:5])
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows))
    rows = [rows[n] for n in order]
    place = rank[at]
    sort = np.lexsort((np.arange(len(place)), times, place))
    place, times, values = place[sort], times[sort], values[sort]
    if len(place):
        is_last = np.ones(len(place), bool)
        is_last[:-1] = (place[1:] != place[:-1]) | (times[1:] != times[:-1])
        place, times, values = place[is_last], times[is_last], values[is_last]
    heads = pl.DataFrame([row[1:] for row in rows], schema=list(_SCHEMA)[:5], orient="row")
    heads = heads.cast(pl.String)
    index = pl.Series(place, dtype=pl.UInt32)
    frame = heads[index].with_columns(time_ns=pl.Series(times), value=pl.Series(values))
    return frame.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def empty_frame() -> pl.DataFrame:
    """No sample."""
    return pl.DataFrame(schema=_SCHEMA)


def _join(
    blocks: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not blocks:
        return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    if len(blocks) == 1:
        return blocks[0]
    return (
        np.concatenate([b[0] for b in blocks]),
        np.concatenate([b[1] for b in blocks]),
        np.concatenate([b[2] for b in blocks]),
    )
