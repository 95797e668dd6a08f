"""Questions about the data itself: tables, slices of the timeline, flame graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.doors.mcp.desk import Desk
from sightline.doors.mcp.texts import MOST_ROWS, write_page, write_rows
from sightline.errors import MissingDataError, RequestError

if TYPE_CHECKING:
    from sightline.answer.sql import Bounds

# As `serve` bounds its queries, with fewer rows (views/serve/answers.py).
_SECONDS, _MEMORY = 20.0, 1 << 30


def bound_query() -> Bounds:
    """What a query of a model may take."""
    from sightline.answer.sql import Bounds

    return Bounds(MOST_ROWS, _SECONDS, _MEMORY)


def ask_table(
    desk: Desk,
    recording: str,
    sql: str | None = None,
    analysis: str | None = None,
    parameters: dict[str, str] | None = None,
    offset: int = 0,
) -> str:
    """Rows of one SQL statement (DuckDB, read-only) or of an analysis; null columns are left out.

    sql sees the tables that open lists; resource sightline://tables has their columns and units.
    analysis: a name of sightline://analyses such as kernels, breakdown, idle_gaps, steps; hot_lines
    and fused_kernels have source lines with their cost. An answer is cut to a page: aggregate in
    SQL, or go on with offset=next_offset.
    """
    from sightline.answer.sql import answer_query
    from sightline.core import registry
    from sightline.views.tables import put_worst_first

    session = desk.session(recording)
    if (sql is None) == (analysis is None):
        raise RequestError("give either sql or analysis")
    head: dict[str, Any] = {}
    if analysis is None:
        assert sql is not None, "both or neither were given"
        answer = answer_query(session, sql, bounds=bound_query())
        if answer.height == MOST_ROWS:
            head["cut"] = f"the first {MOST_ROWS} rows"
        ask_next = f"table('{recording}', sql='SELECT ... GROUP BY ...')"
    else:
        declared = registry.load("analyses", analysis).ANALYSIS
        answer = put_worst_first(session.ask(declared.name, **(parameters or {})), declared)
        head["units"] = {c.name: c.unit for c in declared.columns if c.unit}
        head["notes"] = list(declared.notes)
        ask_next = f"explain('{declared.name}')"
    start = max(offset, 0)
    rows = answer.slice(start, MOST_ROWS).to_dicts()
    return write_rows(head, rows, start, answer.height, [ask_next])


def slice_timeline(
    desk: Desk,
    recording: str,
    start_ns: int = 0,
    end_ns: int | None = None,
    rank: int | None = None,
    side: str = "device",
    offset: int = 0,
) -> str:
    """What ran in a slice of time, the longest operations first.

    start_ns and end_ns count from the first window's start. side: "device" (kernels, copies) or
    "host" (operators, ranges, API calls). at_ns counts from the same start; ids are of the tables
    device_ops and host_ops.
    """
    names = {"device": ("device_ops", "device_op_id"), "host": ("host_ops", "host_op_id")}
    if side not in names:
        raise RequestError(f"there is no side '{side[:40]}'", why="there are device and host")
    table, key = names[side]
    session = desk.session(recording)
    if not session.rows(table):
        raise MissingDataError(f"the recording has no rows in {table}")
    start = find_start(session, table)
    end = pl.lit(True) if end_ns is None else pl.col("start_ns") < start + end_ns
    own = pl.lit(True) if rank is None else pl.col("rank") == rank
    inside = (
        session.scan(table)
        .filter(end, own, pl.col("end_ns") > start + start_ns)
        .with_columns(at_ns=pl.col("start_ns") - start, ns=pl.col("end_ns") - pl.col("start_ns"))
    )
    wanted = ("kind", "layer", "name", "rank", "device_id", "stream_id", "tid", "bytes")
    columns = [c for c in wanted if c in inside.collect_schema().names()]
    longest = inside.sort("ns", key, descending=[True, False]).limit(MOST_ROWS)
    rows = longest.select("at_ns", "ns", key, *columns).collect().to_dicts()
    count = inside.select(pl.len()).collect().item()
    head = {"slice_ns": [start_ns, end_ns], "starts_at_ns": start, "operations": count}
    ask_next = [f"table('{recording}', sql=...): {key} is the key of {table}"]
    return write_page(head, rows, offset, ask_next)


def find_start(session: Any, table: str) -> int:
    """The moment that slices count from, ns: the first window's start, else the first row's."""
    if session.rows("device_ops"):
        return int(session.ask("windows").get_column("window_start_ns").min())
    return int(session.scan(table).select(pl.col("start_ns").min()).collect().item())


def draw_flame(
    desk: Desk,
    recording: str,
    weight: str | None = None,
    order: str = "how",
    under: str | None = None,
    least_pct: float = 2.0,
) -> str:
    """The flame graph as an indented tree: share of the whole, time, layer, frame.

    weight: gpu_time_ns, gpu_idle_ns, exposed_ns, cpu_time_ns, samples, ...; the first that there
    is otherwise. order: "how" from the root to the kernel, "why" from the reason to its callers.
    under: only below frames that contain this text. least_pct: smaller frames are left out.
    """
    from sightline.doors.mcp.flame_text import write_tree
    from sightline.flames.build import build_stacks, choose_weight
    from sightline.flames.stacks import explain_idle

    if order not in ("how", "why"):
        raise RequestError(f"there is no order '{order[:40]}'", why="there are how and why")
    built = build_stacks(desk.session(recording))
    chosen = choose_weight(built, weight)
    shown = explain_idle(built) if order == "why" else built
    return write_tree(shown, chosen, under, least_pct)
