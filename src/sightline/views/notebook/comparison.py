"""A comparison: the verdict, and what the step was made of before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.core.units import format_ns
from sightline.views.comparison.comparison import (
    PART_LABELS,
    WORTH,
    describe_sides,
    explain_pair,
    format_change,
    render_comparison,
    write_verdict,
)
from sightline.views.notebook._style import (
    GAIN,
    LOSS,
    Display,
    make_bars,
    wrap_html,
    write_element,
    write_table,
)

if TYPE_CHECKING:
    from sightline.answer.displays import Comparison

DISPLAY = Display("comparison")
_MOST_PAIRS = 8


def write_html(data: Comparison) -> str:
    """The verdict with its reasons, the waterfall, and the operations that explain it."""
    reasons = "".join(write_element("li", reason) for reason in data["verdict"]["reasons"])
    rows = [("mean step", data["step"])]
    rows += [(PART_LABELS[row["part"]], row) for row in data["waterfall"]]
    table = write_table(
        ["", "before", "after", "change"],
        [
            [
                label,
                format_ns(row["before_ns"]),
                format_ns(row["after_ns"]),
                format_change(row["delta_ns"]),
            ]
            for label, row in rows
        ],
    )
    least = WORTH * data["step"]["before_ns"]
    pairs = [p for p in data["pairs"] if p["part"] != "idle" and abs(p["delta_ns"]) >= least]
    explained = "".join(
        f"<li><b style='color:{GAIN if pair['delta_ns'] < 0 else LOSS}'>"
        f"{format_change(pair['delta_ns'])}</b> {write_element('span', pair['label'])} "
        f"{write_element('span', explain_pair(pair), 'soft')}</li>"
        for pair in pairs[:_MOST_PAIRS]
    )
    return wrap_html(
        *(write_element("p", line, "soft") for line in describe_sides(data)),
        write_element("h4", write_verdict(data)),
        f"<ul>{reasons}</ul>{table}<ul>{explained}</ul>",
    )


def write_text(data: Comparison) -> str:
    """The screen of `sightline compare`; of a comparison that was changed, the dictionary."""
    return render_comparison(data).plain


def list_rows(data: Comparison) -> list[dict[str, Any]]:
    """One row a part of the step."""
    return [{"part": row["part"], **row} for row in data["waterfall"]]


def make_chart(altair: Any, rows: list[dict[str, Any]]) -> Any:
    """What each part of the step took, before beside after."""
    values = [
        {"part": PART_LABELS[row["part"]], "side": side, "ms": row[f"{side}_ns"] / 1e6}
        for row in rows
        for side in ("before", "after")
    ]
    return make_bars(
        altair,
        values,
        x=altair.X("ms:Q", title="ms per step"),
        y=altair.Y("part:N", sort=None, title=None),
        yOffset=altair.YOffset("side:N", sort=["before", "after"]),
        color=altair.Color("side:N", sort=["before", "after"], title=None),
    )
