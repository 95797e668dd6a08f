"""A flame graph as a picture, with titles on hover; the page that zooms: `run.flame("f.html")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.answer.functions import rank_functions
from sightline.core.text import fit_text
from sightline.flames import svg
from sightline.flames.instances import merge_instances
from sightline.flames.svg import amount
from sightline.views.notebook._style import Display, make_bars, wrap_html

if TYPE_CHECKING:
    from sightline.answer.displays import Flame

DISPLAY = Display("flame")
_NAME = 48  # columns


def write_html(value: Flame) -> str:
    """The picture that `sightline flame -o x.svg` writes."""
    return wrap_html(svg.write(merge_instances(value.stacks), value.weight, value.title))


def write_text(value: Flame) -> str:
    """The functions with the largest share of their own."""
    lines = [f"{value.title}: {amount(value.weight, value.stacks.total(value.weight))}"]
    for row in list_rows(value):
        own = amount(value.weight, row["own"])
        lines.append(f"{own:>12} {row['own_pct']:>5.1f} %  {fit_text(row['short_name'], _NAME)}")
    return "\n".join(lines)


def list_rows(value: Flame) -> list[dict[str, Any]]:
    """The ten functions with the largest share of their own."""
    return rank_functions(value.stacks, value.weight)


def make_chart(altair: Any, rows: list[dict[str, Any]]) -> Any:
    """Their shares."""
    return make_bars(
        altair,
        rows,
        x=altair.X("own_pct:Q", title="own share, %"),
        y=altair.Y("short_name:N", sort=None, title=None),
    )
