"""One step on its streams, as a picture; all of the run: `sightline report -o page.html`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.text import fit_text
from sightline.core.units import format_ns, format_several
from sightline.errors import MissingDataError
from sightline.views.html.step_picture import Step, draw_step, take_step
from sightline.views.notebook._style import Display, make_bars, wrap_html

if TYPE_CHECKING:
    from sightline.answer.displays import Timeline

DISPLAY = Display("timeline")
_MOST_ROWS, _NAME = 30, 52


def _take(value: Timeline) -> Step:
    """The step. Raises MissingDataError without a device's timeline."""
    from sightline.compare.sample import take_sample

    step = take_step(take_sample(value.run, "the run"))
    if step is None:
        raise MissingDataError(
            "there is no timeline", why="no device operations were recorded", hint="run.flame()"
        )
    return step


def write_html(value: Timeline) -> str:
    """The picture."""
    return wrap_html(draw_step(_take(value)))


def write_text(value: Timeline) -> str:
    """The operations of the step, in order; the first thirty."""
    step = _take(value)
    lines = [
        f"step {step.number}, {format_ns(step.length_ns)}, "
        f"{format_several(step.ops.height, 'operation')}"
    ]
    for row in step.ops.sort("start_ns").head(_MOST_ROWS).iter_rows(named=True):
        took = format_ns(row["end_ns"] - row["start_ns"])
        name = fit_text(shorten_kernel_name(row["name"]), _NAME)
        lines.append(f"{format_ns(row['start_ns']):>10} {took:>10}  {name}")
    if step.ops.height > _MOST_ROWS:
        lines.append(f"{step.ops.height - _MOST_ROWS} more: .to_rows()")
    return "\n".join(lines)


def list_rows(value: Timeline) -> list[dict[str, Any]]:
    """One row an operation of the step: stream, name, class, start and end in ns from its start."""
    rows = _take(value).ops.rename({"class_": "class"}).sort("start_ns")
    return rows.to_dicts()


def make_chart(altair: Any, rows: list[dict[str, Any]]) -> Any:
    """Bars from start to end, a stream each; Altair takes 5,000 rows."""
    return make_bars(
        altair,
        rows,
        x=altair.X("start_ns:Q", title="ns"),
        x2="end_ns:Q",
        y=altair.Y("stream:O", title="stream"),
        color=altair.Color("class:N", title=None),
        tooltip=["name:N", "start_ns:Q", "end_ns:Q"],
    )
