"""Recordings that are open, by short names; the least recently used are closed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from sightline.core.units import format_several
from sightline.doors.mcp.roots import resolve_path, show_path
from sightline.errors import RequestError
from sightline.session import Session, open_session

_MOST_OPEN = 8  # tables of a run stay in memory while it is open
_MOST_PATHS = 256
_Key = tuple[tuple[tuple[str, int, int], ...], str | None, bool]


@dataclass
class Desk:
    """What one server has open. `lock` is held by whoever asks: questions come one at a time."""

    roots: tuple[Path, ...]
    lock: RLock = field(default_factory=RLock)
    _open: OrderedDict[str, tuple[_Key, str, Session]] = field(default_factory=OrderedDict)
    _count: int = 0

    def resolve(self, paths: Sequence[str]) -> list[str]:
        """Paths that may be opened. Raises InputError."""
        if not 0 < len(paths) <= _MOST_PATHS:
            raise RequestError(
                f"{format_several(len(paths), 'path')} are named", why=f"1 to {_MOST_PATHS} may be"
            )
        return [resolve_path(path, self.roots) for path in paths]

    def open(self, paths: Sequence[str], window: str | None, same_job: bool) -> str:
        """The id of the run that these recordings are; the same while they do not change."""
        real = self.resolve(paths)
        stamps = [(path, Path(path).stat()) for path in real]
        stamped = tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stamps)
        key: _Key = (stamped, window, same_job)
        for name, (known, _, _) in self._open.items():
            if known == key:
                self._open.move_to_end(name)
                return name
        session = open_session(real, window=window, same_job=same_job)
        self._count += 1
        name = f"r{self._count}"
        self._open[name] = (key, ", ".join(show_path(p, self.roots) for p in real), session)
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return name

    def session(self, name: str) -> Session:
        """The run of an id. Raises RequestError."""
        return self._find(name)[2]

    def label(self, name: str) -> str:
        """What was opened under an id, as paths below the roots."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[_Key, str, Session]:
        if name not in self._open:
            *first, last = self._open or ["none"]
            known = f"{', '.join(first)} and {last} are" if first else f"{last} is"
            raise RequestError(
                f"no recording '{name[:40]}' is open",
                why=f"{known} open",
                hint='open(paths=["trace.json"]) opens one and answers its id',
            )
        self._open.move_to_end(name)
        return self._open[name]
