"""Kernel profiles: each profiled kernel's sections, stalls, code with heat, rules, what-if."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core import registry
from sightline.core.kernel_labels import label_kernels
from sightline.core.model.columns import Column, pct, text
from sightline.core.model.columns import number as count
from sightline.core.model.run import Run
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.units import format_bytes, format_ns, format_pct
from sightline.errors import MissingDataError
from sightline.subjects.ncu.kernel_rows import remove_links
from sightline.subjects.ncu.panels._code import list_instructions, list_source_lines
from sightline.subjects.ncu.panels._limits import draw_traffic, name_limit
from sightline.subjects.ncu.panels._occupancy import draw_occupancy_curves

PANEL = Panel("profile", "Kernel profiles", 25)

# Kernels that the page holds; a report of more has a table of all of them in the panel "Kernels".
MAX_KERNELS = 40
# Instructions of one kernel: the largest CUTLASS kernels of our recordings have 2 103.
MAX_CODE = 6_000
_FAMILIES = {
    "counters": "cycles per issued instruction",
    "samples": "samples of all warps",
    "samples_not_issued": "samples taken while the scheduler issued nothing",
}


def data(view: View) -> list[Block]:
    """A choice among the profiled kernels, the longest first."""
    run = view.run
    if not run.rows("profiled_kernels"):
        raise MissingDataError(
            "no kernel profiles", why="no kernel was profiled: record with  ncu --set full"
        )
    kernels = run.table("profiled_kernels").sort(
        "duration_ns", "kernel_id", descending=[True, False], nulls_last=True
    )
    shown = kernels.head(MAX_KERNELS)
    labels = label_kernels(n for n in shown.get_column("name") if n is not None)
    options = []
    for row in shown.iter_rows(named=True):
        name = labels.get(row["name"], "kernel without a name")
        took = "" if row["duration_ns"] is None else f", {format_ns(row['duration_ns'])}"
        options.append(
            {
                "label": f"{row['kernel_id']}: {name}{took}",
                "blocks": list(_describe_kernel(view, row["kernel_id"])),
            }
        )
    found: list[Block] = [{"kind": "choice", "label": "Kernel", "options": options}]
    if shown.height < kernels.height:
        found.append(
            blocks.make_text(f"The longest {MAX_KERNELS} of {kernels.height:,} are in the page.")
        )
    return found


# Of a kernel without throughputs and stalls: not a panel of folds alone.
_UNKNOWN = (
    "What bounds it is not known: the report has neither throughputs nor stalls. "
    "ncu --set full records them."
)


def _describe_kernel(view: View, kernel: int) -> Iterator[Block]:
    """What bounds it, its memory, where its warps wait; all the rest is folded."""
    run = view.run
    name = run.table("profiled_kernels").filter(kernel_id=kernel).item(0, "name")
    speed = _ask(view, "speed_of_light", kernel)
    stalls = _ask(view, "stalls", kernel)
    limit = name_limit(None if speed is None else speed.row(0, named=True), stalls)
    yield blocks.make_text(limit or _UNKNOWN, "lead")
    if name:
        yield blocks.make_text(name)
    hierarchy = _ask(view, "memory_hierarchy", kernel)
    if speed is not None and hierarchy is not None:
        yield from draw_traffic(speed.row(0, named=True), hierarchy)
    yield from _list_waiting_lines(run, kernel)
    for title, inner in (
        ("Speed of light", _section(view, kernel, "speed_of_light", "Speed of light")),
        ("Launch and occupancy", _describe_launch(view, kernel)),
        ("Memory: all figures", _memory(view, kernel)),
        ("Why warps wait", _stalls(view, kernel)),
        ("Instructions", _describe_work(view, kernel)),
        ("Code", _list_code(run, kernel)),
        ("What the profiler's own rules say", _rules(view, kernel)),
    ):
        if not (made := list(inner)):
            continue
        if limit:
            yield blocks.make_group(title, made)
        else:  # there is nothing else to see
            yield from made


# Source lines beside the answer: more are a listing, which is folded.
_LINES = 12


def _list_waiting_lines(run: Run, kernel: int) -> Iterator[Block]:
    """The source lines at which most samples fell, as bars, with the stall of each."""
    lines = list_source_lines(run, kernel)
    if lines is None:
        return
    frame, columns = lines
    top = frame.filter(pl.col("samples") > 0).sort(
        "samples", "file", "line", descending=[True, False, False]
    )
    title = "Source lines by samples"
    if top.height > _LINES:
        title = f"The {_LINES} source lines with the most samples"
    hide = ("samples", "not_issued", "not_issued_pct")
    yield blocks.make_table(title, top.head(_LINES), columns, heat=("share_pct",), hide=hide)


def _describe_launch(view: View, kernel: int) -> Iterator[Block]:
    yield from _section(view, kernel, "launch_shape", "Launch")
    yield from _section(view, kernel, "occupancy", "Occupancy")
    yield from draw_occupancy_curves(view.run, kernel)
    yield from _section(
        view, kernel, "occupancy_what_if", "Nearest settings that change the occupancy"
    )


def _describe_work(view: View, kernel: int) -> Iterator[Block]:
    yield from _section(view, kernel, "tensor_use", "Tensor cores")
    yield from _section(
        view, kernel, "instruction_mix", "Instruction mix", heat=("share_pct",), sort="executed"
    )


def _list_code(run: Run, kernel: int) -> Iterator[Block]:
    """The source with its samples, and the instructions."""
    lines = list_source_lines(run, kernel)
    if lines is not None:
        frame, columns = lines
        yield blocks.make_table("Source", frame, columns, heat=("share_pct",), limit=MAX_CODE)
    code = list_instructions(run, kernel)
    if code is not None:
        frame, columns = code
        yield blocks.make_table(
            "Instructions (SASS)",
            frame,
            columns,
            heat=("share_pct", "not_issued_pct", "executed_pct"),
            limit=MAX_CODE,
        )


def _ask(view: View, analysis: str, kernel: int) -> pl.DataFrame | None:
    """An analysis' rows of one kernel; None where there are none."""
    try:
        rows = view.run.ask(analysis).filter(kernel_id=kernel)
    except MissingDataError:
        return None
    return rows if rows.height else None


def _section(
    view: View,
    kernel: int,
    analysis: str,
    title: str,
    heat: tuple[str, ...] = (),
    sort: str | None = None,
) -> Iterator[Block]:
    """The rows of an analysis that are the kernel's; nothing where it has none."""
    rows = _ask(view, analysis, kernel)
    if rows is None:
        return
    declared = registry.load("analyses", analysis).ANALYSIS
    own = [c for c in declared.columns if c.name not in ("kernel_id", "name")]
    if not any(rows.get_column(c.name).count() for c in own):
        return
    shares = tuple(c.name for c in own if c.name.endswith("_pct")) if rows.height == 1 else ()
    yield blocks.make_table(title, rows, own, heat=heat or shares, sort=sort)


def _memory(view: View, kernel: int) -> Iterator[Block]:
    """Caches and device memory, each value in its own unit."""
    rows = _ask(view, "memory_hierarchy", kernel)
    if rows is None:
        return
    rows = rows.drop_nulls("value")
    values = [_format(r["value"], r["unit"]) for r in rows.iter_rows(named=True)]
    columns = (
        text("level", "l1, shared, l2 or dram"),
        text("quantity", "what is measured"),
        text("measured", "its value"),
    )
    yield blocks.make_table("Memory", rows.with_columns(measured=pl.Series(values)), columns)


def _format(value: float, unit: str) -> str:
    if unit == "%":
        return format_pct(value)
    return f"{format_bytes(value)}/s" if unit == "bytes/s" else f"{value:.4g} {unit}"


def _stalls(view: View, kernel: int) -> Iterator[Block]:
    """A table for each way of counting that was recorded: they must not be added."""
    rows = _ask(view, "stalls", kernel)
    if rows is None:
        return
    declared = {c.name: c for c in registry.load("analyses", "stalls").ANALYSIS.columns}
    columns = [declared[n] for n in ("reason", "stall_class", "value", "share_pct")]
    for family, counted in _FAMILIES.items():
        own = rows.filter((pl.col("family") == family) & (pl.col("value") > 0))
        if own.height:
            yield blocks.make_table(f"Stalls: {counted}", own, columns, heat=("share_pct",))


_RULE_COLUMNS: tuple[Column, ...] = (
    text("section", "section of the vendor's report"),
    text("rule", "the vendor's rule"),
    text("severity", "as the vendor grades it"),
    text("text", "the vendor's message"),
    pct("speedup_pct", "the vendor's estimate of the gain"),
    text("speedup_type", "local: of the unit; global: of the kernel"),
    count("message_id", "number of the message"),
)


def _rules(view: View, kernel: int) -> Iterator[Block]:
    """The vendor's messages in the vendor's words."""
    rows = view.run.table("vendor_rules").filter(
        (pl.col("kernel_id") == kernel) & pl.col("text").is_not_null()
    )
    if rows.is_empty():
        return
    rows = rows.with_columns(
        text=pl.col("text").map_elements(remove_links, return_dtype=pl.String),
        rule=pl.coalesce("rule_name", "rule"),
    )
    source = rows.item(0, "source")
    yield blocks.make_table(
        f"Rules of {source}", rows, _RULE_COLUMNS, hide=("message_id",), heat=("speedup_pct",)
    )
