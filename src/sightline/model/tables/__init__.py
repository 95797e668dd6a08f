"""The declared tables, one file each."""

from __future__ import annotations

from sightline import registry
from sightline.model.columns import Table


def load_table(name: str) -> Table:
    """The declaration of one table, by its name."""
    declared: Table = registry.load("model.tables", name).TABLE
    return declared
