"""An HPCToolkit database as stacks with weights: each context's own time, over all threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sightline.core.model.declare import Imported, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.errors import DamagedError
from sightline.formats._stacks import finish_import
from sightline.formats.hpc.hpctoolkit.database import read_database
from sightline.formats.hpc.hpctoolkit.experiment import read_experiment

# The weight, the frames from the root, and the time in ns.
Weight = tuple[str, tuple[Frame, ...], float]


def read_profile(source: Source) -> Imported:
    """Read the database. Raises DamagedError where it is damaged, or has no time."""
    folder = source.path if source.path.is_dir() else source.path.parent
    is_database = source.path.is_dir() and (folder / "meta.db").is_file()
    path = source.path if source.path.is_file() else folder / "experiment.xml"
    quality: list[Quality] = []
    trie = StackTrie()
    odd: Counter[str] = Counter()
    weights: list[tuple[int | None, str, int, str]] = []
    found: Iterator[Weight]
    try:
        found = read_database(folder, odd) if is_database else read_experiment(path, source)
        for weight, frames, value in found:
            weights.append((trie.add(frames), weight, round(value), "exact"))
    except (ValueError, IndexError, OverflowError, OSError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"the database is damaged ({error})"
        ) from error
    for what, count in odd.items():
        if count:
            text = f"the database has {what}: times are missing, or are attributed elsewhere"
            quality.append(Quality("damaged_database", "error", text, count))
    return finish_import(source, trie, weights, quality, "HPCToolkit")
