"""Whether a built site holds together: no link to nowhere, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by element and attribute; a link (`a`) is followed by a person.
_LOADS = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
}
_STYLE = re.compile(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]?(https?:)?//")


class _Reader(HTMLParser):
    """A page's links, what it loads, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            if (tag, name) in _LOADS:
                self.loads.append(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)


def find_faults(site: Path) -> list[str]:
    """A line for each link to nowhere, and for each thing that would be loaded from elsewhere."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    faults = [
        fault
        for path, reader in pages.items()
        if path.name != "404.html"  # served from any depth, with addresses from the root
        for fault in _check_page(path, reader, pages, site)
    ]
    for path in sorted(site.rglob("*.css")):
        if _STYLE.search(path.read_text(encoding="utf-8")):
            faults.append(f"{path.relative_to(site)}: loads from elsewhere")
    return faults


def _read(path: Path) -> _Reader:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def _check_page(
    path: Path, reader: _Reader, pages: dict[Path, _Reader], site: Path
) -> Iterator[str]:
    name = path.relative_to(site.resolve())
    for value in reader.loads:
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") or value.startswith("//"):
            yield f"{name}: loads {value}"
        elif parts.path and not (path.parent / unquote(parts.path)).exists():
            yield f"{name}: loads {value}, which is not there"
    for value in reader.links:
        parts = urlsplit(value)
        if parts.scheme or value.startswith("//"):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            yield f"{name}: links to {value}, which is not there"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{name}: links to {value}, which has no such place"
