"""Samples in memory since the last checkpoint: columns that grow, 20 bytes each sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import polars as pl

from sightline.cluster.names import Series

_SCHEMA = {
    "host": pl.String, "metric": pl.String, "scope": pl.String, "element": pl.String,
    "unit": pl.String, "time_ns": pl.Int64, "value": pl.Float64,
}  # fmt: skip
_JOIN = 512  # blocks of single requests that become one


class SeriesTable:
    """The series that are known, numbered from 0, and when each was last seen, in s since 1970.

    A number whose series was let go is given again.
    """

    def __init__(
        self, known: Iterable[Series | None] = (), seen: Sequence[int] = (), now_s: int = 0
    ) -> None:
        self.rows: list[Series | None] = []
        self._numbers: dict[Series, int] = {}
        self._by_host: dict[tuple[str, str], list[int]] = {}
        self._free: dict[int, None] = {}
        self._seen = np.zeros(1024, np.int64)
        for number, one in enumerate(known):
            self.put(number, one, seen[number] if number < len(seen) else now_s)

    def __len__(self) -> int:
        """How many are known."""
        return len(self._numbers)

    def find(self, series: Series) -> int | None:
        """Its number; None of one that is new."""
        return self._numbers.get(series)

    def list_next(self, count: int) -> list[int]:
        """The numbers that the next so many series get."""
        free = list(islice(self._free, count))
        return [*free, *range(len(self.rows), len(self.rows) + count - len(free))]

    def put(self, number: int, series: Series | None, now_s: int) -> None:
        """Give a number to a series; None: to none. Raises ValueError beyond the next number."""
        if number > len(self.rows):
            raise ValueError("series are missing")
        if number == len(self.rows):
            self.rows.append(None)
            self._free[number] = None
            if number == len(self._seen):
                self._seen = np.concatenate([self._seen, np.zeros(number, np.int64)])
        self._seen[number] = now_s
        if self.rows[number] == series:
            return
        self._let_go([number])
        if series is not None:
            self._let_go([n for n in (self._numbers.get(series),) if n is not None])
            self._numbers[series] = number
            self.rows[number] = series
            self._by_host.setdefault((series.cluster, series.host), []).append(number)
            del self._free[number]

    def mark(self, numbers: np.ndarray, now_s: int) -> None:
        """Samples of these came in."""
        self._seen[numbers] = now_s

    def list_seen(self) -> list[int]:
        """When each number was last seen, in s since 1970."""
        return [int(second) for second in self._seen[: len(self.rows)]]

    def has_all(self, numbers: np.ndarray) -> bool:
        """Whether each of these is the number of a series."""
        if not len(numbers):
            return True
        if not 0 <= numbers.min() <= numbers.max() < len(self.rows):
            return False
        return not self._free or not np.isin(numbers, list(self._free)).any()

    def drop_idle(self, before_s: int, held: Samples) -> int:
        """Let go of the series that were not seen since, and have no sample in memory."""
        idle = self._seen[: len(self.rows)] < before_s
        if not idle.any():
            return 0
        held.unmark(idle)
        return self._let_go(np.flatnonzero(idle).tolist())

    def list_hosts(self, cluster: str) -> list[str]:
        """The nodes of a cluster, by name."""
        return sorted(host for own, host in self._by_host if own == cluster)

    def list_of(self, cluster: str, hosts: Iterable[str]) -> list[int]:
        """The numbers of all series of some nodes."""
        return [n for host in hosts for n in self._by_host.get((cluster, host), ())]

    def _let_go(self, numbers: Iterable[int]) -> int:
        hosts = set()
        count = 0
        for number in numbers:
            row = self.rows[number]
            if row is not None:
                del self._numbers[row]
                self.rows[number], self._free[number] = None, None
                hosts.add((row.cluster, row.host))
                count += 1
        for host in hosts:
            left = [n for n in self._by_host[host] if self.rows[n] is not None]
            if left:
                self._by_host[host] = left
            else:
                del self._by_host[host]
        return count


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

    def unmark(self, marks: np.ndarray) -> None:
        """Set the marks of all series that have a sample here to false."""
        for numbers, _, _ in self._blocks:
            marks[numbers] = False

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
    return pl.concat([empty_frame(), *list_frames(table, numbers, times, values)])


def list_frames(
    table: SeriesTable,
    numbers: np.ndarray,
    times: np.ndarray,
    values: np.ndarray,
    most: int = 1 << 40,
) -> Iterator[pl.DataFrame]:
    """The same in parts of some samples, one after the other: each needs little memory and time."""
    counts = np.bincount(numbers, minlength=len(table.rows))
    used = [(row, n) for n in np.flatnonzero(counts).tolist() if (row := table.rows[n]) is not None]
    if len(used) < np.count_nonzero(counts):
        raise ValueError("samples belong to no series")
    used.sort(key=lambda one: one[0][1:5])
    order = np.array([n for _, n in used], np.int64)
    rank = np.zeros(len(counts), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    ends = np.cumsum(counts[order])
    place = rank[numbers]
    first = 0
    while first < len(order):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        if (first, last) == (0, len(order)):
            own = (place, times, values)
        else:
            keep = np.flatnonzero((place >= first) & (place < last))
            own = (place[keep] - first, times[keep], values[keep])
        yield _sort_frame([row for row, _ in used[first:last]], *own)
        first = last


def _sort_frame(
    rows: Sequence[Series], place: np.ndarray, times: np.ndarray, values: np.ndarray
) -> pl.DataFrame:
    """Samples of these series by series and time, of which `place` says whose each is."""
    sort = np.lexsort((times, place))  # it is stable: the last one stays the last
    place, times, values = place[sort], times[sort], values[sort]
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


def encode_samples(numbers: np.ndarray, times: np.ndarray, values: np.ndarray) -> bytes:
    """A block for the log: how many, then the three columns."""
    count = len(numbers).to_bytes(4, "little")
    return count + numbers.tobytes() + times.tobytes() + values.tobytes()


def decode_samples(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of `encode_samples`: numbers, times, values."""
    count = int.from_bytes(data[:4], "little")
    first, second = 4 + 4 * count, 4 + 12 * count
    return (
        np.frombuffer(data[4:first], np.int32),
        np.frombuffer(data[first:second], np.int64),
        np.frombuffer(data[second:], np.float64),
    )


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
