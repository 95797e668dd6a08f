"""Whether a program's steps became slower than they use to be, step by step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

_KNOWN = 1000  # steps of which the percentile is taken: ten lie above it
_LEAST = 200  # of them, before anything is said: two lie above the percentile
# A step in a hundred is slower than the 99th percentile. So many in a row are one in 10^8 by
# chance; at ten steps a second a healthy hour has 36,000 (3.6 in 10,000 hours fire).
_IN_A_ROW = 4
_SHARE = 0.99


class SlowSteps:
    """Steps of one program, of which some in a row are slower than its own 99th percentile."""

    def __init__(self) -> None:
        self._known: deque[int] = deque()
        self._sorted: list[int] = []
        self._row: list[int] = []

    def add(self, length_ns: int) -> bool:
        """Take a step's length; whether the program became slower with it.

        What is usual is learnt anew then. Steps of a row that ended become known.
        """
        if len(self._known) < _LEAST:
            self._learn(length_ns)
            return False
        if length_ns > self._sorted[int(_SHARE * len(self._sorted))]:
            self._row.append(length_ns)
            if len(self._row) < _IN_A_ROW:
                return False
            self._known.clear()
            self._sorted.clear()
            self._row.clear()
            return True
        for step in (*self._row, length_ns):
            self._learn(step)
        self._row.clear()
        return False

    def _learn(self, length_ns: int) -> None:
        self._known.append(length_ns)
        insort(self._sorted, length_ns)
        if len(self._known) > _KNOWN:
            del self._sorted[bisect_left(self._sorted, self._known.popleft())]
