"""The report's page for large runs: the same page, its events from a local server."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from sightline.answer.cache import identify_run
from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.run import Run
from sightline.errors import StoreError
from sightline.opening import cache
from sightline.views.serve.build import Say, build_index
from sightline.views.serve.index import Index
from sightline.views.serve.server import LOOPBACK, Server
from sightline.views.serve.service import Service

__all__ = ["LOOPBACK", "Server", "prepared", "serve"]


def prepare_index(run: Run, say: Say = lambda _: None) -> Index:
    """The index of a run, from the cache, or made and kept there.

    Where nothing can be written to the cache it is made in the folder for temporary files (TMPDIR),
    and removed as soon as its files are mapped: nothing is left, however the process ends.
    """
    name = f"serve-{identify_run(run)}"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if (entry := cache.find_entry(name, None)) is not None:
            return Index.read(entry)
    made: list[Index] = []

    def make(folder: Path) -> None:
        made.append(build_index(run, folder, say))
        _ = made[0].columns  # mapped: they stay readable wherever the folder goes
        made[0].write()

    try:
        cache.keep_entry(name, None, make)
    except (StoreError, OSError) as error:
        if made:
            return made[0]
        raise StoreError(
            f"cannot prepare the timeline in {open_cache_folder()}",
            why=error.why if isinstance(error, StoreError) else error.strerror or str(error),
            hint="It takes 37 bytes an event. Name a folder with room:  SIGHTLINE_CACHE=FOLDER",
        ) from error
    return made[0]


def serve(run: Run, host: str = LOOPBACK, port: int = 0, say: Say = lambda _: None) -> Server:
    """A server of the run's page, not yet answering: call serve_forever().

    The panels of a large run are made meanwhile, one after another.
    """
    service = Service(run, prepare_index(run, say))
    server = Server(service, host, port)
    if service.panels.large:
        threading.Thread(target=service.panels.make_ahead, daemon=True).start()
    return server
