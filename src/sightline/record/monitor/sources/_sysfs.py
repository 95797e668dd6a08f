"""Values of small files that the kernel shows."""

from __future__ import annotations

from pathlib import Path

SYSTEM = Path("/sys")


def read_text(path: Path) -> str | None:
    """A file's text without its end of line; None where it is missing or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> float | None:
    """A file's number; None where there is none."""
    text = read_text(path)
    try:
        return None if text is None else float(text.split()[0])
    except (ValueError, IndexError):
        return None
