"""An entry of the cache: a folder with a marker that says what is in it, and is signed.

The marker names the entry, the content that it was made of, and each file with its size and a
hash. Only a folder whose marker fits is ever read, and only such a folder is ever removed. The
signature is a hash, no secret: it tells our folders from other people's, and whole ones from
those that a full disk or a crash left.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

MARKER = "sightline-entry.json"
FORMAT = "sightline-cache-entry"
# A file up to this size is hashed whole; of a larger one its beginning and its end, which in
# Parquet holds the schema and where each column lies.
_WHOLE = 1 << 20
_START, _END = 4 << 10, 64 << 10


def write_marker(folder: Path, name: str, content: str | None) -> None:
    """Mark a finished folder as the entry of that name."""
    files = {str(p.relative_to(folder)): _describe(p) for p in _files(folder)}
    marker: dict[str, Any] = {"format": FORMAT, "name": name, "content": content, "files": files}
    marker["signature"] = _sign(marker)
    (folder / MARKER).write_text(json.dumps(marker), encoding="utf-8")


def verify_entry(folder: Path, name: str, content: str | None) -> bool:
    """Whether the folder is the whole entry of that name, made of that content."""
    marker = read_marker(folder)
    if marker is None or marker["name"] != name or marker["content"] != content:
        return False
    try:
        return all(_describe(folder / f) == known for f, known in marker["files"].items())
    except OSError:
        return False


def read_marker(folder: Path) -> dict[str, Any] | None:
    """The marker, where there is one of ours."""
    try:
        if folder.is_symlink():
            return None
        marker = json.loads((folder / MARKER).read_bytes())
        signature = marker.pop("signature")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    known = marker.get("format") == FORMAT and signature == _sign(marker)
    return marker if known else None


def measure_entry(folder: Path) -> int:
    """Bytes of its files."""
    return sum(p.stat().st_size for p in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MARKER)


def _describe(path: Path) -> list[Any]:
    """Size, and a hash of the bytes."""
    size = path.stat().st_size
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        if size <= _WHOLE:
            digest.update(file.read(_WHOLE))
        else:
            digest.update(file.read(_START))
            file.seek(-_END, 2)
            digest.update(file.read(_END))
    return [size, digest.hexdigest()]


def _sign(marker: dict[str, Any]) -> str:
    text = json.dumps(marker, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"sightline entry").hexdigest()
