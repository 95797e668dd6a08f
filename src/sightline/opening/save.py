"""A run written to a store of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sightline import registry
from sightline.model.run import Run
from sightline.model.store import READ_FAILURES, Tables, explain_unreadable, write_store
from sightline.model.tables import load_table
from sightline.version import __version__


def save_run(run: Run, target: Path, *, replace: bool = False) -> None:
    """Write a run to a store of its own. Raises StoreError, also where the run's own is damaged.

    A store that is there is replaced, anything else only where `replace` says so.
    """
    names = registry.list_names("model.tables")

    def recordings() -> Iterable[tuple[int, dict[str, Any], Tables]]:
        for part in run.parts:
            tables: Tables = {}
            for name in names:
                frame = part.scan(load_table(name))
                if frame is None:
                    continue
                try:
                    # Ids of the run are those of the new store, where the numbers are the same.
                    tables[name] = frame.drop("rank").collect()
                except READ_FAILURES as error:
                    raise explain_unreadable(name, part.store, error) from error
            here = ("rows", "own_rank", "constants")
            facts = {k: v for k, v in part.facts.items() if k not in here}
            yield part.rank, facts, tables

    write_store(target, recordings(), sightline_version=__version__, replace=replace)
