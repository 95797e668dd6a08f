"""The report's page for large runs: the same page, its events from a local server."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sightline.model.run import Run
from sightline.report.serve.build import Say, build
from sightline.report.serve.index import Index
from sightline.report.serve.server import LOOPBACK, Server
from sightline.report.serve.service import Service

__all__ = ["LOOPBACK", "Server", "prepared", "serve"]


def prepared(run: Run, say: Say = lambda _: None) -> Index:
    """The index of a run, on disk in the folder for temporary files (TMPDIR).

    Its files are removed at once, as soon as they are mapped, so nothing is left of them when the
    process ends, however it ends.
    """
    with tempfile.TemporaryDirectory(prefix="sightline-serve-") as folder:
        index = build(run, Path(folder), say)
        _ = index.columns
    return index


def serve(run: Run, host: str = LOOPBACK, port: int = 0, say: Say = lambda _: None) -> Server:
    """A server of the run's page, not yet answering: call serve_forever()."""
    return Server(Service(run, prepared(run, say)), host, port)
