"""The declared tables, one file each."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from sightline.core import registry
from sightline.core.model.columns import Table


def load_table(name: str) -> Table:
    """The declaration of one table, by its name."""
    declared: Table = _load_module(name).TABLE
    return declared


@cache  # a report asks a thousand times how many rows some table has
def _load_module(name: str) -> ModuleType:
    return registry.load("tables", name)
