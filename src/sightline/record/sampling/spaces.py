"""Which file an address of a process lies in, as its mappings come and go."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from sightline.record.probe.processes import Mapping


class AddressSpace:
    """The code of one process, by address."""

    def __init__(self, parts: list[Mapping] | None = None) -> None:
        self._parts = sorted(parts or [], key=_start)

    def copy(self) -> AddressSpace:
        """The same, for a process that was forked."""
        return AddressSpace(self._parts)

    def add(self, new: Mapping) -> bool:
        """Map a part; what lay there before is gone. Whether anything did."""
        at = max(bisect_right(self._parts, new.start, key=_start) - 1, 0)
        end = at
        kept: list[Mapping] = []
        while end < len(self._parts) and self._parts[end].start < new.end:
            old = self._parts[end]
            if old.start < new.start:
                kept.append(replace(old, end=min(old.end, new.start)))
            if old.end > new.end:
                moved = old.offset + new.end - old.start
                kept.append(replace(old, start=new.end, offset=moved))
            end += 1
        covered = any(old.end > new.start for old in self._parts[at:end])
        self._parts[at:end] = sorted([*kept, new], key=_start)
        return covered

    def find(self, address: int) -> Mapping | None:
        """The part that an address lies in."""
        at = bisect_right(self._parts, address, key=_start) - 1
        if at < 0 or address >= self._parts[at].end:
            return None
        return self._parts[at]


def _start(part: Mapping) -> int:
    return part.start
