"""One recording to a store: from the cache, or by its importer."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sightline.core import registry
from sightline.core.model import unwritten
from sightline.core.model.cache_folder import (
    is_temporary,
    list_cache_folders,
    open_cache_folder,
    replace_cache_folder,
)
from sightline.core.model.columns import Table
from sightline.core.model.declare import Importer, ImportOptions
from sightline.core.model.source import Source
from sightline.core.stages import stage
from sightline.errors import StoreError
from sightline.opening import cache
from sightline.opening.content import hash_content
from sightline.opening.impossible_times import CHECKS
from sightline.opening.recognise import recognise
from sightline.opening.recording import (
    ReadRecording,
    describe_held,
    list_held,
    read_recording,
    write_recording,
)

T = TypeVar("T")

_ATTEMPTS = 3  # to read a file that is written to meanwhile


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew. Raises InputError.

    One of some size may still be written when it is asked (core/model/unwritten.py).
    """
    with stage("find out the format"):
        importer = recognise(source)
    salt = f"{importer.name}-{importer.version}-{options}-{_layout()}-{CHECKS}"
    for _ in range(_ATTEMPTS):
        with stage("hash it, look in the cache"):
            content = hash_content(source)
        name = cache.name_entry(content, salt)
        entry = _find_unwritten(name) or cache.find_entry(name, content)
        if entry is not None:
            return entry
        # Not under its name yet: the file may change while it is read.
        made = _keep_somewhere(partial(_make_entry, name, content, importer, source, options))
        if made is not None:
            return made
    # It is written to all the time: what was read stands for no content that is known.
    unknown = f"changing-{uuid.uuid4().hex}"
    read = read_recording(importer, source, options, None)
    return cache.keep_entry(unknown, None, partial(write_recording, read))


def _find_unwritten(name: str) -> Path | None:
    """The entry of that name, where this process is writing it."""
    places = (folder / name for folder in list_cache_folders())
    return next((place for place in places if unwritten.is_unwritten(place)), None)


def _keep_somewhere(keep: Callable[[], T]) -> T:
    """What `keep` answers; where the cache's disk is full, once more, with another cache."""
    try:
        return keep()
    except StoreError as error:
        if is_temporary(open_cache_folder()):
            raise
        replace_cache_folder(error.why or error.what)
        return keep()


def _make_entry(
    name: str, content: str, importer: Importer, source: Source, options: ImportOptions
) -> Path | None:
    """The entry, or None if the file changed while it was read."""
    read = read_recording(importer, source, options, content)
    if read.is_small:
        return _write_behind(name, content, source, read)

    def make(folder: Path) -> None:
        write_recording(read, folder)
        if hash_content(source) != content:
            raise _ChangedError

    try:
        return cache.keep_entry(name, content, make)
    except _ChangedError:
        return None


class _ChangedError(Exception):
    """The recording is not what it was when its hash was taken."""


def _write_behind(name: str, content: str, source: Source, read: ReadRecording) -> Path | None:
    """Where the entry will be, or None if the file changed: it is written beside what goes on."""
    tables = list_held(read.tables)
    if hash_content(source) != content:
        return None

    def keep() -> Path:
        # A copy, as what is written is taken out.
        held = read._replace(tables=dict(tables))
        return cache.keep_entry(name, content, partial(write_recording, held))

    entry = open_cache_folder() / name
    facts = describe_held(read, tables)
    unwritten.begin_writing(entry, facts, tables, lambda: _keep_somewhere(keep))
    return entry


def _layout() -> str:
    """The tables' columns in short: an entry that was written with others is not taken."""
    tables = {name: module.TABLE for name, module in registry.load_members("tables")}
    key = tuple(map(id, tables.values()))
    if key not in _layouts:
        _layouts[key] = tables, _shorten_layout(tables)
    return _layouts[key][1]


# What was said of these very tables, which are held so that no others have their identities.
_layouts: dict[tuple[int, ...], tuple[dict[str, Table], str]] = {}


def _shorten_layout(tables: Mapping[str, Table]) -> str:
    columns = [
        (name, [(c.name, str(c.dtype)) for c in table.columns]) for name, table in tables.items()
    ]
    return hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()
