"""What `watch` writes: each round at the end of a file, and now and then a sealed file of those.

Sealing into Parquet, thinning and keeping the bound are work for Polars, in a process of its own
that ends (`monitor.seal`): the one that watches stays small. A disk that is full costs rounds, said
and counted, and nothing that was written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

from sightline.core.foreign_files import hold_folder
from sightline.core.model.history_folder import (
    DEVICES,
    ENTITY,
    ENTITY_HEAD,
    EVENT,
    FACTS,
    FORMAT,
    LIVE,
    LIVE_ENDING,
    ROUND,
    ROUND_HEAD,
    TABLE,
    VERSION,
    is_history,
    list_live,
    pack_json,
    pack_record,
    write_document,
)
from sightline.core.watched_metrics import METRICS
from sightline.errors import RequestError
from sightline.record.monitor.notices import describe_event
from sightline.record.monitor.readings import Device, Entity, Reading
from sightline.record.monitor.rounds import Round

_SECOND = 1_000_000_000
_HOUR_NS = 3600 * _SECOND
_FULL_BYTES = 64 << 20  # of a live file, whatever its age: many processes


@dataclass(frozen=True)
class Limits:
    """How long what is kept: seconds between values by age in days, and bytes of all of it."""

    thinning: tuple[tuple[float, int], ...] = ((2, 10), (14, 60), (90, 600))
    max_bytes: int = 2_000_000_000


def start_sealing(folder: Path, ended: Sequence[Path]) -> subprocess.Popen[bytes] | None:
    """Seal live files that nobody writes any more, thin and keep the bound, in an own process."""
    names = [path.name for path in ended]
    command = [sys.executable, "-m", "sightline.record.monitor.seal", str(folder), *names]
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  # our own module
    except OSError:
        return None


class HistoryWriter:
    """A history's folder, locked; raises RequestError where it cannot be written or is in use."""

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        period_s: float,
        *,
        seal: Callable[[Path, Sequence[Path]], subprocess.Popen[bytes] | None] = start_sealing,
    ) -> None:
        self.folder = folder  # as it is called in messages
        self._held = contextlib.ExitStack()
        self.place = folder  # by which it is written to
        self._seal = seal
        self._limits, self._period_s = limits, period_s
        self._sealing: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None
        self._open()
        self.begun_anew = 0
        self._devices: list[Device] = []
        self._file: int | None = None
        self._began_ns = self._size = 0
        self._tables: dict[str, tuple[int, dict[str, int]]] = {}
        self._entities: dict[Entity, tuple[int, struct.Struct]] = {}
        self._tables_made = self._entities_made = 0
        self._pending = b""  # what the next round needs to be understood
        self.lost_rounds = 0
        self.why_lost = ""
        # What a watch left that was killed; not what this one begins meanwhile.
        if left := list_live(self.place):
            self._sealing = self._seal(self.place, left)

    def _open(self) -> None:
        """The folder, made and locked. Raises RequestError."""
        self._make_folder()
        self._lock = self._take_lock()
        self._write_facts(self._limits, self._period_s)

    def _let_go(self) -> None:
        """Close the file, the lock and the folder."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self._held.close()
        self.place = self.folder

    def _is_removed(self) -> bool:
        """Whether the file that is written was removed with its folder, or by itself."""
        return self._file is not None and os.fstat(self._file).st_nlink == 0

    def _begin_anew(self) -> None:
        """Another folder of the same name, where the one that was written is gone."""
        self._let_go()
        try:
            self._open()
        except RequestError as error:
            self.why_lost = error.why or error.what
            self._let_go()
            return
        self.begun_anew += 1

    def _make_folder(self) -> None:
        folder = self.folder
        try:
            is_begun = is_history(folder) or (folder / LIVE).is_dir()
            if folder.exists() and not is_begun and any(folder.iterdir()):
                raise RequestError(
                    f"{folder} is not empty and holds no history of sightline watch",
                    hint="Name a folder that does not exist yet:  sightline watch -o gpu-history",
                )
            folder.mkdir(parents=True, exist_ok=True)
            self.place = self._held.enter_context(hold_folder(folder))
            (self.place / LIVE).mkdir(exist_ok=True)
        except OSError as error:
            raise RequestError(f"cannot keep a history in {folder}", why=str(error)) from error

    def _write_facts(self, limits: Limits, period_s: float) -> None:
        """Once the folder is ours: another watch's limits are none of this one's business."""
        folder = self.folder
        try:
            facts = {
                "format": FORMAT,
                "version": VERSION,
                "period_s": period_s,
                "thinning": limits.thinning,
                "max_bytes": limits.max_bytes,
            }
            write_document(self.place / FACTS, facts)
        except OSError as error:
            raise RequestError(f"cannot keep a history in {folder}", why=str(error)) from error

    def _take_lock(self) -> int:
        lock = os.open(self.place / "watch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise RequestError(
                f"another sightline watch keeps {self.folder}",
                hint="Give each its own folder, or end the other one.",
            ) from error
        return lock

    def set_devices(self, devices: Sequence[Device]) -> None:
        """What the readings are of; stands in each live file."""
        if list(devices) != self._devices:
            self._devices = list(devices)
            if self._file is not None:
                self._append(self._pack_devices())

    def write(self, now: Round) -> bool:
        """Append a round; False where the disk did not take it."""
        if self._is_removed() or self._lock is None:
            self._begin_anew()
        if self._lock is not None and (self._file is None or self._is_due(now)):
            self._rotate(now)
        if self._file is None:
            self.lost_rounds += 1
            return False
        rows = b"".join(self._pack(reading) for reading in now.readings)
        events = b"".join(pack_json(EVENT, describe_event(event)) for event in now.events)
        head = ROUND_HEAD.pack(now.wall_ns, now.steady_ns)
        written = self._append(self._pending + events + pack_record(ROUND, head + rows))
        if written:
            self._pending = b""
        else:
            self.lost_rounds += 1
        return written

    def _pack(self, reading: Reading) -> bytes:
        """A row; what it needs to be understood is put before the round."""
        entity = reading.entity
        kind = entity.kind
        known = self._tables.get(kind)
        if known is None or not reading.values.keys() <= known[1].keys():
            columns = [*(known[1] if known else ())]
            columns += [m for m in reading.values if known is None or m not in known[1]]
            self._tables_made += 1
            known = self._tables[kind] = self._tables_made, {m: n for n, m in enumerate(columns)}
            told = {"table": known[0], "kind": kind, "columns": [_column(m) for m in columns]}
            self._pending += pack_json(TABLE, told)
            for other in [e for e in self._entities if e.kind == kind]:
                del self._entities[other]
        if entity not in self._entities:
            self._entities_made += 1
            self._entities[entity] = self._entities_made, struct.Struct(f"<{len(known[1])}d")
            told = {
                "entity": self._entities_made,
                "table": known[0],
                "device_id": entity.device_id,
                "source": entity.source,
            }
            self._pending += pack_json(ENTITY, told)
        number, shape = self._entities[entity]
        row = [reading.values.get(metric, nan) for metric in known[1]]
        return ENTITY_HEAD.pack(number) + shape.pack(*row)

    def _append(self, data: bytes) -> bool:
        """Write all of it or nothing: what came of half a record is cut off again."""
        assert self._file is not None
        try:
            done = os.write(self._file, data)
            if done == len(data):
                self._size += done
                return True
            self.why_lost = os.strerror(errno.ENOSPC)
        except OSError as error:
            self.why_lost = error.strerror or str(error)
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._close_file()  # the next round begins another file
        return False

    def _is_due(self, now: Round) -> bool:
        return now.steady_ns - self._began_ns >= _HOUR_NS or self._size >= _FULL_BYTES

    def _rotate(self, now: Round) -> None:
        self._close_file()
        path = self.place / LIVE / f"{now.wall_ns}-{now.steady_ns}{LIVE_ENDING}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            self.why_lost = error.strerror or str(error)
            return
        self._size, self._began_ns = 0, now.steady_ns
        # A file is understood by itself.
        self._tables, self._entities = {}, {}
        self._tables_made = self._entities_made = 0
        self._pending = self._pack_devices()
        ended = [other for other in list_live(self.place) if other != path]
        if ended and not self._is_sealing():
            self._sealing = self._seal(self.place, ended)

    def _is_sealing(self) -> bool:
        return self._sealing is not None and self._sealing.poll() is None

    def _pack_devices(self) -> bytes:
        return pack_json(DEVICES, [device._asdict() for device in self._devices])

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """End the file and seal what there is; of a folder that was removed there is nothing."""
        if self._is_removed() or self._lock is None:
            self._let_go()
            return
        self._close_file()
        if self._is_sealing():
            assert self._sealing is not None
            self._sealing.wait()
        last = self._seal(self.place, list_live(self.place))
        if last is not None:
            last.wait()
        self._let_go()


def _column(metric: str) -> str:
    return METRICS[metric].column if metric in METRICS else metric
