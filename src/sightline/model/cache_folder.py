"""Where sightline keeps what it can make again: imports, answers, scratch files."""

from __future__ import annotations

import os
from pathlib import Path


def find_cache_folder() -> Path:
    """SIGHTLINE_CACHE, else the user's cache folder; it may not be there yet."""
    own = os.environ.get("SIGHTLINE_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sightline"
