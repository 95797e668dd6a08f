"""What all displays share: their declaration, their style, and small pieces of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sightline.core.text import make_printable


@dataclass(frozen=True)
class Display:
    """One kind of value that shows itself."""

    name: str


# The report page's hues (web/src/shared). A notebook has a theme of its own, which no media query
# tells: text and lines take its colors.
COLOURS = {
    "compute": "#4f93b8",
    "exposed_comm": "#9070b5",
    "exposed_copy": "#c29a33",
    "unknown": "#8a939c",
    "idle": "#b9c1c8",
}
GAIN, LOSS = "#3b8f5a", "#b8431a"
_CSS = """
.sightline{font:14px/1.5 system-ui,"Segoe UI",Roboto,Arial,sans-serif;max-width:60rem}
.sightline .card{border:1px solid #8886;border-left:4px solid #888;border-radius:8px;
padding:.5rem .9rem;margin:.45rem 0}
.sightline .critical{border-left-color:#b8431a}.sightline .warning{border-left-color:#e3a008}
.sightline h4{margin:0;font-size:1rem}.sightline p{margin:.25rem 0}
.sightline .soft{opacity:.75;font-size:.88rem}.sightline ul{margin:.2rem 0 .2rem 1.2rem;padding:0}
.sightline table{border-collapse:collapse;font-size:inherit;margin:.4rem 0}
.sightline td,.sightline th{padding:.12rem .7rem .12rem 0;text-align:right;white-space:nowrap}
.sightline td:first-child,.sightline th:first-child{text-align:left;white-space:normal}
.sightline .bar{display:flex;height:16px;border-radius:3px;overflow:hidden;margin:.2rem 0}
.sightline i{display:inline-block;width:.7em;height:.7em;border-radius:2px;margin:0 .35em 0 0}
.sightline svg{max-width:100%;height:auto;border-radius:6px}
"""


def wrap_html(*parts: str) -> str:
    """One element with its style."""
    return f'<div class="sightline"><style>{_CSS}</style>{"".join(parts)}</div>'


def write_element(tag: str, text: str, role: str = "") -> str:
    """A text as an element, letter by letter."""
    attribute = f' class="{role}"' if role else ""
    return f"<{tag}{attribute}>{escape(make_printable(text))}</{tag}>"


def write_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(write_element("th", cell) for cell in header)
    body = "".join(f"<tr>{''.join(write_element('td', cell) for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def make_bars(altair: Any, rows: list[dict[str, Any]], **encoding: Any) -> Any:
    """Horizontal bars over rows of plain data, which stand in the chart."""
    return altair.Chart(altair.Data(values=rows)).mark_bar().encode(**encoding)
