"""Statistics of the last values of a metric, at a cost that does not grow with how many they are.

A round adds one value and lets those go that are too old. Sums are kept, and what is least and
greatest in two queues, each of values that a later one has not made irrelevant. Sums of floats
drift as values come and go: once for each full turn of the window they are made anew, which is a
step for each value that came.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from math import fsum
from operator import ge, le


class _Extreme:
    """The least or the greatest of the values: those that no later value is beyond."""

    def __init__(self, is_beyond: Callable[[float, float], bool]) -> None:
        self._is_beyond = is_beyond
        self._pairs: deque[tuple[int, float]] = deque()

    def add(self, number: int, value: float) -> None:
        while self._pairs and self._is_beyond(value, self._pairs[-1][1]):
            self._pairs.pop()
        self._pairs.append((number, value))

    def drop_before(self, number: int) -> None:
        while self._pairs and self._pairs[0][0] < number:
            self._pairs.popleft()

    @property
    def value(self) -> float:
        return self._pairs[0][1]


class RunningWindow:
    """The values of the last `length_ns`, `most` at most; the last one stays, however old."""

    def __init__(self, length_ns: int, most: int) -> None:
        self._length_ns, self._most = length_ns, most
        self._pairs: deque[tuple[int, float]] = deque()
        self._in_order: list[float] = []
        self._least, self._greatest = _Extreme(le), _Extreme(ge)
        self._added = 0
        self._until_anew = 0
        self._begin_ns, self._base = 0, 0.0  # what times and values are counted from
        self._seconds = self._squares = self._values = self._products = 0.0

    @property
    def last(self) -> tuple[int, float]:
        """When the last value came, ns, and the value."""
        return self._pairs[-1]

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, at_ns: int, value: float) -> None:
        """Take a value in; those that it makes too old go."""
        self._pairs.append((at_ns, value))
        insort(self._in_order, value)
        self._least.add(self._added, value)
        self._greatest.add(self._added, value)
        self._added += 1
        if self._until_anew <= 0:
            self.drop_old(at_ns)
            self._sum_anew()
        else:
            self._until_anew -= 1
            self._count(at_ns, value, 1)
            self.drop_old(at_ns)

    def drop_old(self, now_ns: int) -> None:
        """Let go what is older than the window, but for the last value."""
        oldest = now_ns - self._length_ns
        while len(self._pairs) > 1 and (
            self._pairs[0][0] < oldest or len(self._pairs) > self._most
        ):
            at, value = self._pairs.popleft()
            del self._in_order[bisect_left(self._in_order, value)]
            self._count(at, value, -1)
        first = self._added - len(self._pairs)
        self._least.drop_before(first)
        self._greatest.drop_before(first)

    def summarize(self) -> dict[str, float]:
        """Statistics of the values; `slope` is of the line of least squares, per second."""
        count = len(self._pairs)
        first, last = self._pairs[0][1], self._pairs[-1][1]
        mean = self._base + self._values / count
        half = count // 2
        middle = self._in_order[half]
        median = middle if count % 2 else (self._in_order[half - 1] + middle) / 2
        return {
            "avg": mean,
            "mean": mean,
            "min": self._least.value,
            "max": self._greatest.value,
            "median": median,
            "sum": mean * count,
            "count": float(count),
            "first": first,
            "last": last,
            "increase": last - first,
            "slope": self._find_slope(),
        }

    def _find_slope(self) -> float:
        count = len(self._pairs)
        if count < 2:
            return 0.0
        spread = self._squares - self._seconds**2 / count
        if spread <= 0:
            return 0.0
        return (self._products - self._seconds * self._values / count) / spread

    def _count(self, at_ns: int, value: float, sign: int) -> None:
        seconds, beyond = (at_ns - self._begin_ns) / 1e9, value - self._base
        self._seconds += sign * seconds
        self._squares += sign * seconds**2
        self._values += sign * beyond
        self._products += sign * seconds * beyond

    def _sum_anew(self) -> None:
        self._begin_ns, self._base = self._pairs[0]
        seconds = [(at - self._begin_ns) / 1e9 for at, _ in self._pairs]
        beyond = [value - self._base for _, value in self._pairs]
        self._seconds, self._values = fsum(seconds), fsum(beyond)
        self._squares = fsum(s * s for s in seconds)
        self._products = fsum(s * v for s, v in zip(seconds, beyond, strict=True))
        self._until_anew = len(self._pairs)
