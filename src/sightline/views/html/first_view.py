"""What a page shows before its script has read anything: the answer and the first finding, as HTML.

A browser paints it while most of the file is still to be read. web/src/report/main.ts puts the same
panel, drawn from the data, in its place; classes and order are those of web/src/report/findings.ts.
"""

from __future__ import annotations

import re
from html import escape
from itertools import takewhile
from typing import Any

from sightline.core.units import format_bytes, format_joules, format_ns, format_pct


def write_first_view(content: dict[str, Any]) -> str:
    """The first panel's title, its first sentences, and its first card.

    Nothing where a server makes it.
    """
    panel = content["panels"][0]
    blocks = panel["blocks"] or []
    parts = [_tag("h2", panel["title"])]
    said = takewhile(lambda block: block["kind"] == "text", blocks)
    parts += [_tag("p", block["text"], block["role"]) for block in said]
    cards = [card for block in blocks if block["kind"] == "findings" for card in block["cards"]]
    gains = [card for card in cards if has_gain(card)]
    if cards and cards[0]["leads"]:
        lead = f'<ul class="cards"><li>{_write_card(cards[0])}</li></ul>'
        parts.append(f'<div><section class="remarks leads">{lead}</section></div>')
    elif gains:
        parts.append(f'<div><ol class="cards"><li>{_write_card(gains[0])}</li></ol></div>')
    elif cards:
        remark = f'<ul class="cards"><li>{_write_card(cards[0])}</li></ul>'
        title = _tag("h3", "Noticed (no estimate of a gain)")
        parts.append(f'<div><section class="remarks">{title}{remark}</section></div>')
    return f'<section class="panel">{"".join(parts)}</section>' if blocks else ""


def write_panel_list(content: dict[str, Any]) -> str:
    """Links to the panels, of which the first is shown."""
    links = []
    for place, panel in enumerate(content["panels"]):
        current = "" if place else ' aria-current="page"'
        link = f'<a href="#p={escape(panel["name"])}"{current}>{escape(panel["title"])}</a>'
        links.append(f"<li>{link}</li>")
    return f"<ul>{''.join(links)}</ul>"


def has_gain(card: dict[str, Any]) -> bool:
    """Whether fixing it gains something: time, memory or energy."""
    return bool(card["gain_ns"] or card["gain_bytes"] or card["gain_j"])


# As web/src/shared/dom.ts has it.
_UNIT = re.compile(
    r"(\d) (?=(?:%|[nµm]?s|min|h|[kMGT]?B(?:/s)?|k?J|m?W|[kMG]Hz|[GTP]?FLOP/s)(?!\w))"
)


def keep_units(text: str) -> str:
    """A text in which no line ends between a number and its unit."""
    return _UNIT.sub("\\1\u00a0", text)


def _tag(name: str, text: str, role: str = "") -> str:
    return f"<{name}{f' class={role!r}' if role else ''}>{escape(keep_units(text))}</{name}>"


def _write_card(card: dict[str, Any]) -> str:
    severity = card["severity"]
    where = '<div class="where early"></div>' if card["where"]["count"] else ""
    cause = _tag("p", card["cause"], "soft") if card["cause"] else ""
    fix = f'<p class="line"><b>Fix</b>{_tag("span", card["fix"])}</p>' if card["fix"] else ""
    return (
        f'<article class="card {severity}"><header>{_tag("h3", card["title"])}'
        f'<span class="tag {severity}">{severity}</span>'
        f'<dl class="figures">{"".join(_write_figures(card))}</dl></header>'
        f"{_tag('p', card['summary'])}{where}{cause}{_write_evidence(card)}{fix}</article>"
    )


# Facts beside the answer, as web/src/report/findings.ts has them.
_FACTS = 4


def _write_evidence(card: dict[str, Any]) -> str:
    """The first facts, as web/src/report/findings.ts shows them."""
    shown = "".join(_tag("li", text) for text in card["evidence"][:_FACTS])
    return f'<ul class="evidence">{shown}</ul>' if shown else ""


def _write_figures(card: dict[str, Any]) -> list[str]:
    """Cost and gain in each of its units, then the confidence."""
    figures = []
    for unit, write, costs, gains in (
        ("ns", format_ns, "costs", "could save up to"),
        ("bytes", format_bytes, "takes", "could free up to"),
        ("j", _write_joules, "takes", "could save up to"),
    ):
        cost, gain = card[f"cost_{unit}"], card[f"gain_{unit}"]
        if cost is not None:
            share = card["cost_pct"]
            whole = "" if share is None else f'<dd class="of">of {escape(card["of"])}</dd>'
            figures.append(_write_figure(costs, _add_share(write(cost), share), whole))
        if gain:
            saved = _add_share(write(gain), card["gain_pct"])
            is_all = unit == "ns" and cost and saved == _add_share(write(cost), card["cost_pct"])
            figures.append(
                _write_figure("could save", "all of it") if is_all else _write_figure(gains, saved)
            )
    return [*figures, _write_figure("confidence", card["confidence"])]


def _write_joules(joules: float) -> str:
    """As the page's cells have it, which give what is below 1 kJ two decimals."""
    if abs(joules) >= 1e3:
        return format_joules(joules)
    return f"{joules:.2f}".rstrip("0").rstrip(".") + " J"


def _write_figure(label: str, value: str, after: str = "") -> str:
    return f"<div>{_tag('dt', label)}{_tag('dd', value)}{after}</div>"


def _add_share(text: str, pct: float | None) -> str:
    return text if pct is None else f"{text} ({format_pct(pct)})"
