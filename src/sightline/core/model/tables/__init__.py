"""The declared tables, one file each."""

from __future__ import annotations

from functools import cache

from sightline.core import registry
from sightline.core.model.columns import Table


@cache
def load_table(name: str) -> Table:
    """The declaration of one table, by its name."""
    declared: Table = registry.load("tables", name).TABLE
    return declared
