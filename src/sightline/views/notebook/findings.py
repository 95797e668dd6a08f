"""Findings as cards: the title, what it costs and could save, the evidence, the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.answer.price_words import LABELS, write_price
from sightline.core.model.declare import Finding
from sightline.core.units import format_several
from sightline.views.notebook._style import Display, make_bars, wrap_html, write_element

if TYPE_CHECKING:
    from sightline.answer.displays import Findings

DISPLAY = Display("findings")
# As on the first screen: beyond are remarks, and what could not be judged.
_MOST_CARDS, _MOST_FACTS = 12, 4


def write_html(found: Findings | Finding) -> str:
    """Cards of what was found, then how many could not be judged."""
    if isinstance(found, Finding):
        return wrap_html(_write_card(found, ()))
    judged = [one for one in found if not one.abstained]
    cards = [_write_card(one, found.breakdown) for one in judged[:_MOST_CARDS]]
    return wrap_html(*cards, write_element("p", _count_rest(found), "soft"))


def write_text(found: Findings) -> str:
    """A line of each with its price, and the fix below it."""
    lines = []
    for one in [one for one in found if not one.abstained][:_MOST_CARDS]:
        lines.append(f"{one.title}  [{one.rule}]")
        lines.append(f"   {' · '.join(write_price(one.to_dict(), found.breakdown))}")
        if one.fix:
            lines.append(f"   {LABELS['fix']}  {one.fix}")
    return "\n".join([*lines, _count_rest(found)])


def list_rows(found: Findings) -> list[dict[str, Any]]:
    """One row a finding that was judged, as `sightline findings --json` has it, without lists."""
    plain = [one.to_dict() for one in found if not one.abstained]
    return [
        {k: v for k, v in row.items() if not isinstance(v, (list, tuple, dict))} for row in plain
    ]


def make_chart(altair: Any, rows: list[dict[str, Any]]) -> Any:
    """What each costs, and could save, as shares."""
    values = [
        {"title": row["title"], "what": word, "pct": row[key]}
        for row in rows
        for word, key in (("costs", "cost_pct"), ("could save", "gain_pct"))
        if row[key] is not None
    ]
    return make_bars(
        altair,
        values,
        x=altair.X("pct:Q", title="%"),
        y=altair.Y("title:N", sort=None, title=None),
        yOffset="what:N",
        color=altair.Color("what:N", title=None),
    )


def _write_card(one: Finding, breakdown: tuple[dict[str, Any], ...]) -> str:
    severity = one.severity if one.severity in ("critical", "warning") else "info"
    if one.abstained:
        return f'<div class="card info">{write_element("p", f"{one.title}: {one.reason}")}</div>'
    facts = "".join(write_element("li", fact) for fact in one.evidence[:_MOST_FACTS])
    fix = (
        f"<p><b>{LABELS['fix']}</b> {write_element('span', one.fix)}</p>"
        if one.fix is not None
        else ""
    )
    price = " · ".join(write_price(one.to_dict(), breakdown))
    return (
        f'<div class="card {severity}">{write_element("h4", one.title)}'
        f"{write_element('p', price, 'soft')}{write_element('p', one.summary)}"
        f"<ul>{facts}</ul>{fix}{write_element('p', one.rule, 'soft')}</div>"
    )


def _count_rest(found: Findings) -> str:
    judged = sum(not one.abstained for one in found)
    more = max(judged - _MOST_CARDS, 0)
    silent = len(found) - judged
    told = [f"{more} more"] if more else []
    told += [f"{format_several(silent, 'rule')} could not judge this recording"] if silent else []
    if not judged:
        told.insert(0, "No rule found a problem")
    return " · ".join(told)
