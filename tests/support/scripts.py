"""Modules of scripts/, which is no package."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from support.places import ROOT


def load_script(name: str) -> Any:
    """A script as a module, with those beside it that it imports."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)
