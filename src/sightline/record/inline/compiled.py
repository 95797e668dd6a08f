"""The compiled part of the recorder (native/marks), where it loads in this Python.

The program's Python may be another one than sightline was installed for: then everything is written
by Python, into the same file, and takes four times as long. SIGHTLINE_RECORDER=plain asks for that.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

VARIABLE = "SIGHTLINE_RECORDER"


def load_marks() -> ModuleType | None:
    """The compiled module, or None."""
    if os.environ.get(VARIABLE) == "plain":
        return None
    try:
        return importlib.import_module("sightline._marks")
    except Exception:  # of another Python, or damaged: no reason for a program to stop
        return None


marks = load_marks()
