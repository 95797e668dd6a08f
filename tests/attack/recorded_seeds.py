"""Whole recordings of formats that others write: small ones kept in `whole`, and some made here.

Those in `whole` are what the formats' own tests read; a folder is called as its importer.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from support.corpus import CORPUS
from support.flight import entry, write_dumps
from support.histories import Phase, rest, train, write_history

WHOLE = Path(__file__).with_name("whole")
# Formats that nothing of ours writes, and a recording of the corpus.
OF_CORPUS = {"otf2": CORPUS / "otf2/hpcgroup__pipit/pipit/tests/data/ping-pong-otf2"}

# Formats that a tool of the system writes, where that is here and may record (seeds.py).
OF_TOOLS = {"perf_data"}


def write_recorded(folder: Path) -> Iterator[tuple[str, Path]]:
    """The kind and the path of each."""
    for kept in sorted(WHOLE.iterdir()):
        for path in kept.iterdir():
            made = folder / kept.name / path.name
            made.parent.mkdir(parents=True)
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, made)
            yield kept.name, made
    dumps = folder / "torch_flight"
    dumps.mkdir()
    yield "torch_flight", Path(write_dumps(dumps, [entry(n, done=n < 8) for n in range(9)])[0])
    phases = [Phase(300, {0: train(), 1: train()}), Phase(100, {0: rest(), 1: rest()})]
    yield "watch_history", write_history(folder / "watched.sightline", phases)


def copy_of_corpus(folder: Path) -> Iterator[tuple[str, Path]]:
    """The same of the corpus, where it is there."""
    for kind, path in OF_CORPUS.items():
        if path.is_dir():
            yield kind, Path(shutil.copytree(path, folder / kind))


def list_of_corpus(most_bytes: int, each: int) -> Iterator[tuple[str, Path]]:
    """The largest recordings of the corpus up to a size, so many of each format that it has."""
    from sightline.core.model.source import Source
    from sightline.errors import SightlineError
    from sightline.opening.recognise import recognise

    counts: dict[str, int] = {}
    known = (p for p in CORPUS.rglob("*") if p.is_file() and 0 < p.stat().st_size <= most_bytes)
    for path in sorted(known, key=lambda path: (-path.stat().st_size, path)):
        try:
            name = recognise(Source(path, path.name)).name
        except SightlineError:
            continue
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= each:
            yield f"{name}-{counts[name]}", path
