"""Stores that are written while they are asked already: until then their tables are in memory.

Writing a recording of millions of events to the cache takes a fifth of a second in which nobody
needs the files. What does need one waits for it (`find_place`); so does the end of the process, and
a fork, in whose child nothing would write on.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sightline.errors import StoreError


class _Unwritten(NamedTuple):
    """What will be in a store of one recording, and where it lies when it is written."""

    facts: dict[str, Any]
    tables: Mapping[str, pl.DataFrame]
    place: Future[Path]


_unwritten: dict[Path, _Unwritten] = {}
_moved: dict[Path, Path] = {}  # stores that had to be written elsewhere, as the disk was full


def begin_writing(
    store: Path,
    facts: dict[str, Any],
    tables: Mapping[str, pl.DataFrame],
    write: Callable[[], Path],
) -> None:
    """Have `write` called beside what goes on; it answers where the store is. One at a time.

    Where it fails with a StoreError, that is logged, and the tables stay in memory.
    """
    finish_writing()  # of the one before: not the tables of two are held
    future: Future[Path] = Future()

    def run() -> None:
        try:
            place = write()
        except BaseException as error:
            if isinstance(error, StoreError):
                logging.getLogger("sightline").warning("sightline: nothing is cached: %s", error)
            future.set_exception(error)
            return
        if place != store:
            _moved[store] = place
        _unwritten.pop(store, None)
        future.set_result(place)

    _unwritten[store] = _Unwritten(facts, tables, future)
    threading.Thread(target=run, name="write-store").start()  # which Python waits for as it ends


def finish_writing() -> None:
    """Wait until all is written; what could not be stays in memory."""
    for each in list(_unwritten.values()):
        each.place.exception()


def is_unwritten(store: Path) -> bool:
    """Whether a store's files are still being written, or could not be."""
    return store in _unwritten


def find_facts(store: Path) -> dict[str, Any] | None:
    """What is known of the recording of a store that is not written yet."""
    known = _unwritten.get(store)
    return None if known is None else known.facts


def find_tables(store: Path) -> Mapping[str, pl.DataFrame] | None:
    """The tables of a store that is not written yet, those that have rows."""
    known = _unwritten.get(store)
    return None if known is None else known.tables


def find_place(store: Path) -> Path:
    """Where the store's files are, once they are written. Raises StoreError if they cannot be."""
    known = _unwritten.get(store)
    return known.place.result() if known is not None else _moved.get(store, store)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=finish_writing)
