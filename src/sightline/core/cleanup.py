"""What is cleaned up as the process ends, also at once, when a person has interrupted it."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable

_registered: list[Callable[[], object]] = []


def register_cleanup(work: Callable[[], object]) -> None:
    """Have it done when Python ends, after all threads have (atexit)."""
    _registered.append(work)
    atexit.register(work)


def unregister_cleanup(work: Callable[[], object]) -> None:
    """It is done, or need not be."""
    if work in _registered:
        _registered.remove(work)
    atexit.unregister(work)


def clean_up() -> None:
    """Do it all now, the newest first, without waiting for any thread."""
    while _registered:
        with contextlib.suppress(Exception):
            _registered.pop()()
