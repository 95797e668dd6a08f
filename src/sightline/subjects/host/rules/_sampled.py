"""What samples of call stacks, recorded beside a program's ranges, say of its own lines."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.text import name_file
from sightline.core.units import format_pct
from sightline.timeline.hot_stacks import list_own_lines, list_waiting

_MOST = 3
# As of hot-function: below 10 % nothing stands out, and fewer samples say little.
_LEAST_PCT, _LEAST_NS = 10.0, 200_000_000


def name_python(run: Run) -> list[str]:
    """Where Python ran outside PyTorch, as a line of evidence; none where nothing was sampled.

    Samples that are sums have no times, so what the program does before its steps is among them.
    """
    of = "samples of Python outside PyTorch, start-up included"
    return _name(list_own_lines(run), "python", of)


def name_loading(run: Run) -> list[str]:
    """Where the loader of data ran, as a line of evidence."""
    return _name(list_own_lines(run), "loading", "samples of Python in the loader")


def name_waits(run: Run) -> list[str]:
    """In which lines threads waited, as a line of evidence."""
    return _name(list_waiting(run), "value", "samples of Python that waits")


def _name(lines: pl.DataFrame, column: str, of: str) -> list[str]:
    whole = sum_column(lines, column)
    if whole < _LEAST_NS:
        return []
    top = lines.filter(100 * pl.col(column) >= _LEAST_PCT * whole).sort(
        column, "function", "line", descending=[True, False, False]
    )
    places = (
        f"{format_pct(100 * row[column] / whole)} {row['function']} "
        f"({name_file(row['file'])}:{row['line']})"
        for row in top.head(_MOST).iter_rows(named=True)
    )
    return [f"{of}: {', '.join(places)}"] if top.height else []
