"""A run from what a person typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightline.model.declare import ImportOptions
from sightline.model.run import Run
from sightline.model.run_folder import is_recorded
from sightline.model.source import Source
from sightline.model.store import is_store, read_facts
from sightline.opening.imports import import_one
from sightline.opening.paths import expand_paths
from sightline.opening.ranks import compose_run, read_rank_of_path
from sightline.opening.run_folder import read_folder


def open_run(
    paths: Sequence[str],
    *,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Run:
    """A run made of recordings and stores, each given as a file, a folder or a glob.

    `progress` is told (file, bytes read, bytes in all) while a recording is read.
    Raises InputError where a path is missing or holds no recording.
    """
    options = options or ImportOptions()
    members: list[tuple[Path, int, dict[str, Any]]] = []
    for given in expand_paths(paths):
        path = Path(given)
        if is_store(path):
            members += [(path, index, facts) for index, facts in enumerate(read_facts(path))]
            continue
        if is_recorded(path):
            members += read_folder(path, given, options, _import_file)
            continue
        source = Source(path, given, _counter(given, path, progress) if progress else None)
        store = import_one(source, options)
        members += [
            (store, 0, {**facts, **read_rank_of_path(path, given, facts)})
            for facts in read_facts(store)
        ]
    return compose_run(members)


def _import_file(path: Path, options: ImportOptions) -> Path:
    return import_one(Source(path, str(path)), options)


def _counter(
    given: str, path: Path, progress: Callable[[str, int, int], None]
) -> Callable[[int], None]:
    size = path.stat().st_size
    done = 0

    def count(read: int) -> None:
        nonlocal done
        done += read
        progress(given, min(done, size), size)

    return count
