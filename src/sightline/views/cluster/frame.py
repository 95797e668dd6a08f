"""What all pages are made of: the frame, tables, links. All texts of others go through `show`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

from sightline.cluster.access import Visitor
from sightline.core.text import make_printable

PAGES = (
    ("", "Jobs"),
    ("waste", "Waste"),
    ("owners", "Users and projects"),
    ("nodes", "Nodes"),
    ("compare", "Compare"),
)


def show(text: object) -> str:
    """A text of anybody as a text of the page: no markup, nothing that moves or hides others."""
    return escape(make_printable("-" if text is None else str(text)), quote=True)


def link(page: str, label: object, query: Mapping[str, Any] | None = None) -> str:
    """A link to a page of ours, with a text of anybody."""
    given = {k: v for k, v in (query or {}).items() if v not in (None, "")}
    target = f"/{page}" + (f"?{urlencode(given)}" if given else "")
    return f'<a href="{escape(target, quote=True)}">{show(label)}</a>'


def write_table(
    label: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    long: int | None = None,
) -> str:
    """A table of cells that are HTML already.

    `numbers` are columns that stand right, `long` is one whose texts may take several lines.
    """
    right = set(numbers)
    heads = "".join(
        f'<th scope="col"{_set_class("n" if n in right else None)}>{cell}</th>'
        for n, cell in enumerate(head)
    )
    kinds: dict[int | None, str] = dict.fromkeys(right, "n")
    kinds[long] = "long"
    lines = []
    for row in rows:
        cells = [f'<th scope="row">{row[0]}</th>']
        cells += [f"<td{_set_class(kinds.get(n))}>{cell}</td>" for n, cell in enumerate(row) if n]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    if not lines:
        return '<p class="soft">None.</p>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{show(label)}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _set_class(kind: str | None) -> str:
    return f' class="{kind}"' if kind else ""


def write_figures(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Names and their figures, which are HTML already; those without one are left out."""
    inside = "".join(f"<div><dt>{show(n)}</dt><dd>{v}</dd></div>" for n, v in pairs if v)
    return f'<dl class="figures">{inside}</dl>' if inside else ""


def write_meter(pct: float | None, low: float = 0.0) -> str:
    """How full something is: a figure and a bar; "-" where it is not known."""
    if pct is None:
        return "-"
    width = min(max(pct, 0.0), 100.0)
    kind = "low" if pct < low else "used"
    return (
        f'{pct:.0f}<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect class="of" width="100" height="10"/>'
        f'<rect class="{kind}" width="{width:.0f}" height="10"/></svg>'
    )


def write_page(
    title: str, parts: Iterable[str], visitor: Visitor, here: str, form: str = ""
) -> str:
    """The whole document; `form` is what a form of this person has."""
    entries = "".join(
        f'<li><a href="/{page}"{" aria-current" if page == here else ""}>{label}</a></li>'.replace(
            " aria-current>", ' aria-current="page">'
        )
        for page, label in PAGES
    )
    who = " · ".join(show(word) for word in (visitor.name, visitor.role) if word)
    leave = (
        f'<form class="inline" method="post" action="/leave">{hide_form(form)}'
        "<button>Sign out</button></form>"
        if form
        else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{show(title)} · sightline</title>"
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css"></head><body>'
        '<a class="skip" href="#main">To the content</a>'
        f'<header class="top"><strong>sightline</strong><nav aria-label="pages"><ul>{entries}</ul>'
        f'</nav><div class="who"><span>{who}</span>{leave}'
        f'</div></header><main id="main"><h1>{show(title)}</h1>{"".join(parts)}</main>'
        "</body></html>"
    )


def hide_form(form: str) -> str:
    """The field that no page of another site knows."""
    return f'<input type="hidden" name="form" value="{escape(form, quote=True)}">'
