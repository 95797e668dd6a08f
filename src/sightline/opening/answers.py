"""Answers that are kept in the cache as small files: each says of itself whether it is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from sightline.core.model.cache_folder import list_cache_folders, open_cache_folder
from sightline.opening.scratch import write_at_once


def find_answer(name: str) -> str | None:
    """The text that was kept under that name, or None."""
    for folder in list_cache_folders():
        path = folder / "answers" / f"{name}.json"
        if (text := read_answer(path)) is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
            return text
    return None


def keep_answer(name: str, text: str) -> None:
    """Keep a text, all at once: another process may be reading. If that fails, nothing is kept."""
    path = open_cache_folder() / "answers" / f"{name}.json"
    with contextlib.suppress(OSError):
        write_at_once(path, f"{_check(path.name, text)}\n{text}")


def read_answer(path: Path) -> str | None:
    """The text in a file that keep_answer wrote, if it is whole."""
    try:
        check, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return None
    return text if check == _check(path.name, text) else None


def _check(name: str, text: str) -> str:
    return hashlib.blake2b(
        f"{name} {text}".encode(), digest_size=16, person=b"sightline answer"
    ).hexdigest()
