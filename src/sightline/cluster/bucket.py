"""The Parquet of a cluster's jobs in object storage: what is too much for the disk of one machine.

The log, the checkpoint, samples of nodes and the index stay on the machine that serves; jobs with
their problems and courses lie in the bucket under the names that they would have in a folder, so
that other machines read them (`sightline cluster judge`, DuckDB, Polars, Dask). One store writes to
a bucket: the object `owner` says which, and `checkpoint` is its own, from which another machine
goes on where that one is gone. Both are only ever written over the version that their writer knows
(S3's conditional writes): of two that write at a time one is told that it came too late.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from sightline.cluster.shelf import OF_JOBS, Part, Shelf, name_part, split_name, write_rows
from sightline.core.optional_packages import load_package
from sightline.core.units import format_bytes
from sightline.errors import InputError

_OWNER, _CHECKPOINT = "owner", "checkpoint"
_MOST_CHECKPOINT = 1 << 31  # bytes; of the largest sites some 100 MB
_AT_ONCE = 1_000  # names of one request to remove: S3's most (DeleteObjects)
# Ours: what is away for longer is tried again by the next checkpoint, and nothing is lost by it.
_RETRIES: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


class Objects:
    """The objects below one address. What fails raises OSError, which names the address."""

    def __init__(self, url: str) -> None:
        """Raises RequestError where obstore is not installed, InputError for an address."""
        store: Any = load_package(
            "obstore.store", "obstore", "object storage is read and written by obstore"
        )
        self.url = url.rstrip("/")
        try:
            self._store = store.from_url(self.url, retry_config=_RETRIES)
        except Exception as error:  # its own classes, and ValueError
            raise InputError(
                f"{self.url} cannot be opened",
                why=_first_line(error),
                hint="Its form is  s3://BUCKET/FOLDER ; keys, region and endpoint are in the "
                "environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, "
                "AWS_ENDPOINT_URL",
            ) from error

    def list(self, prefix: str = "") -> Iterator[dict[str, Any]]:
        """Each object: path, size in bytes, e_tag."""
        with self._told():
            for page in self._store.list(prefix or None):
                yield from page

    def get(self, name: str, most: int | None = None) -> bytes | None:
        """An object; None where there is none. Raises OSError of more bytes than `most`."""
        with self._told():
            try:
                found = self._store.get(name)
                if most is not None and found.meta["size"] > most:
                    raise OSError(f"{name} is larger than {format_bytes(most)}")
                return bytes(found.bytes())
            except FileNotFoundError:
                return None

    def save(self, name: str, target: Path) -> None:
        """An object as a file, some at a time."""
        with self._told(), target.open("wb") as file:
            for piece in self._store.get(name).stream():
                file.write(piece)

    def put(self, name: str, data: bytes) -> None:
        """Write an object: whole, or not at all."""
        with self._told():
            self._store.put(name, data)

    def find(self, name: str, most: int) -> tuple[bytes, str] | None:
        """An object and the mark of this version of it; None where there is none."""
        with self._told():
            try:
                found = self._store.get(name)
                if found.meta["size"] > most:
                    raise OSError(f"{name} is larger than {format_bytes(most)}")
                return bytes(found.bytes()), str(found.meta["e_tag"])
            except FileNotFoundError:
                return None

    def put_over(self, name: str, data: bytes, mark: str | None) -> str | None:
        """Write an object over the version of this mark alone, None: where there is none yet.

        The mark of what was written; None where another version is there, and nothing was.
        """
        with self._told():
            try:
                done = self._store.put(name, data, mode={"e_tag": mark} if mark else "create")
            except Exception as error:
                if type(error).__name__ in ("AlreadyExistsError", "PreconditionError"):
                    return None
                raise
            return str(done["e_tag"])

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; one that is not there is no error."""
        for first in range(0, len(names), _AT_ONCE):
            with self._told():
                self._store.delete(list(names[first : first + _AT_ONCE]))

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the library as OSError of one line."""
        try:
            yield
        except FileNotFoundError:
            raise OSError(f"{self.url}: an object is gone") from None
        except OSError as error:
            raise OSError(f"{self.url}: {_first_line(error)}") from error
        except Exception as error:  # obstore's classes have no ancestor in common with OSError
            if not type(error).__module__.startswith("obstore"):
                raise
            raise OSError(f"{self.url}: {_first_line(error)}") from error


class Bucket(Shelf):
    """Files of jobs below an address `s3://BUCKET/FOLDER`.

    Which there are is asked once: who opens it to write is the only one who does.
    """

    kinds: ClassVar[tuple[str, ...]] = OF_JOBS

    def __init__(self, url: str) -> None:
        """Ask what is there. Raises RequestError, InputError (an address), OSError."""
        self._objects = Objects(url)
        self.url = self._objects.url
        self._lock = threading.Lock()
        self._mark: str | None = None  # of the checkpoint that was read or written last
        self._days: dict[tuple[str, str, str], set[int]] = {}
        for kind in self.kinds:
            for found in self._objects.list(f"{kind}/"):
                if (part := split_name(found["path"])) is not None:
                    self._days.setdefault(part[:3], set()).add(part.number)

    def list_parts(self, kind: str, cluster: str = "", day: str = "") -> list[str]:
        """The files of a kind, of a cluster and day if they are named, by name."""
        with self._lock:
            return sorted(
                name_part(*key, number)
                for key, numbers in self._days.items()
                if key[0] == kind and cluster in ("", key[1]) and day in ("", key[2])
                for number in numbers
            )

    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Write a file. One that failed is in the list all the same: it may be there."""
        held = io.BytesIO()
        write_rows(rows, name, held)
        self.add(name, held.getvalue())

    def add(self, name: str, data: bytes) -> None:
        """Write the bytes of a file."""
        part = _split(name)
        with self._lock:
            self._days.setdefault(part[:3], set()).add(part.number)
        self._objects.put(name, data)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; they are in the list until they are gone."""
        gone = {name: part for name in names if (part := split_name(name)) is not None}
        if not gone:
            return
        self._objects.remove(list(gone))
        with self._lock:
            for part in gone.values():
                numbers = self._days.get(part[:3], set())
                numbers.discard(part.number)
                if not numbers:
                    self._days.pop(part[:3], None)

    def address(self, name: str) -> str:
        """Its address."""
        return f"{self.url}/{name}"

    @contextlib.contextmanager
    def bring(self, names: Sequence[str]) -> Iterator[Path]:
        """Copies in a folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="sightline-cluster-") as folder:
            for name in names:
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                self._objects.save(name, target)
            yield Path(folder)

    # -- whose it is --------------------------------------------------------------------------

    def read_owner(self) -> tuple[str, str | None]:
        """The store that writes here, empty where none does yet; and the mark of that word."""
        found = self._objects.find(_OWNER, 1 << 16)
        if found is None:
            return "", None
        try:
            return str(json.loads(found[0])["store"]), found[1]
        except (ValueError, KeyError, TypeError):
            return "?", found[1]

    def write_owner(self, store: str, mark: str | None) -> bool:
        """From now on it is this one's; False where another one was there first."""
        data = json.dumps({"store": store}).encode()
        return self._objects.put_over(_OWNER, data, mark) is not None

    def read_checkpoint(self) -> bytes | None:
        """The last checkpoint; None where there is none. The next one is written over this one."""
        found = self._objects.find(_CHECKPOINT, _MOST_CHECKPOINT)
        self._mark = found[1] if found is not None else None
        return found[0] if found is not None else None

    def write_checkpoint(self, data: bytes) -> bool:
        """The next checkpoint; False where the last one is another one's, or is not known here."""
        mark = self._objects.put_over(_CHECKPOINT, data, self._mark)
        if mark is not None:
            self._mark = mark
        return mark is not None


def _split(name: str) -> Part:
    part = split_name(name)
    if part is None:
        raise ValueError(f"{name} is not the name of a file of jobs")
    return part


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
