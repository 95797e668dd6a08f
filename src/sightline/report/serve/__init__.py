"""The report's page for large runs: the same page, its events from a local server."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from sightline.errors import StoreError
from sightline.model.cache_folder import find_cache_folder
from sightline.model.run import Run
from sightline.model.store import put_in_place
from sightline.opening import cache
from sightline.report.kept import identify_run
from sightline.report.serve.build import Say, build_index
from sightline.report.serve.index import Index
from sightline.report.serve.server import LOOPBACK, Server
from sightline.report.serve.service import Service

__all__ = ["LOOPBACK", "Server", "prepared", "serve"]


def prepare_index(run: Run, say: Say = lambda _: None) -> Index:
    """The index of a run, from the cache, or made and kept there.

    Where nothing can be written to the cache it is made in the folder for temporary files (TMPDIR),
    and removed as soon as its files are mapped: nothing is left, however the process ends.
    """
    entry = find_cache_folder() / f"serve-{identify_run(run)}"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        index = Index.read(entry)
        cache.mark_used(entry)
        return index
    try:
        find_cache_folder().mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".serve-", dir=find_cache_folder()))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="sightline-serve-"))
    cache.mark_used(folder)
    try:
        index = build_index(run, folder, say)
        _ = index.columns
        if folder.parent == find_cache_folder():
            index.write()
            _keep(folder, entry)
    except OSError as error:
        raise StoreError(
            f"cannot prepare the timeline in {folder}",
            why=error.strerror or str(error),
            hint="It takes 37 bytes an event. Name a folder with room:  SIGHTLINE_CACHE=FOLDER",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return index


def _keep(folder: Path, entry: Path) -> None:
    """The folder as an entry of the cache, unless another server is about to do the same."""
    with contextlib.suppress(OSError):
        put_in_place(folder, entry)
        cache.mark_used(entry)
        cache.trim_cache()


def serve(run: Run, host: str = LOOPBACK, port: int = 0, say: Say = lambda _: None) -> Server:
    """A server of the run's page, not yet answering: call serve_forever()."""
    return Server(Service(run, prepare_index(run, say)), host, port)
