"""A comparison as one offline page: the verdict, the waterfall, pairs, findings, flame graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from sightline.compare.sample import Sample
from sightline.compare.verdict import NOT_COMPARABLE
from sightline.core.model.columns import Column, duration, real, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.text import capitalize, make_printable
from sightline.errors import MissingDataError
from sightline.flames import html as flame_page
from sightline.flames import timeline
from sightline.flames.build import build_stacks, choose_weight
from sightline.flames.stacks import scale_stacks
from sightline.version import __version__
from sightline.views.comparison.comparison import (
    ABSENT,
    PART_LABELS,
    describe_sides,
    explain_equal_clock,
    explain_pair,
    explain_shapes,
    explain_shift,
    format_metric,
    grade_certainty,
    write_verdict,
)
from sightline.views.html.page import SCHEMA, load_template
from sightline.views.html.panels.flame import MAX_NODES
from sightline.views.html.step_picture import draw_steps, take_step

_AMOUNTS = (
    duration("before_ns", "of the mean step before"),
    duration("after_ns", "of the mean step after"),
    Column("change_ns", pl.Int64, "after less before", unit="ns change"),
)


def write_page(data: dict[str, Any], before: Sequence[Sample], after: Sequence[Sample]) -> bytes:
    """The page of a comparison; `before` and `after` are the samples that it was made of."""
    first, second = describe_sides(data)
    makers: tuple[tuple[str, str, Callable[[], list[Block]]], ...] = (
        ("summary", "Verdict", lambda: _show_verdict(data)),
        ("pairs", "Operations", lambda: _show_pairs(data)),
        ("timeline", "Timelines", lambda: _show_timelines(before[0], after[0])),
        ("steps", "Steps", lambda: _show_steps(data)),
        ("host", "Host", lambda: _show_host(data)),
        ("findings", "Findings", lambda: _show_findings(data)),
        ("flame", "Flame graph", lambda: _show_flame(before[0], after[0])),
    )
    panels = [
        {"name": name, "title": title, "blocks": made}
        for name, title, make in makers
        if (made := make())
    ]
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": make_printable(first),
        "about": [make_printable(second)],
        "origin_ns": "0",
        "length_ns": 0,
        "panels": panels,
    }
    return load_template(content, make_printable(first))


def _show_verdict(data: dict[str, Any]) -> list[Block]:
    """The answer, the step before and after as bars, the waterfall, and what limits it."""
    reasons = "; ".join(data["verdict"]["reasons"])
    if data["verdict"]["word"] == NOT_COMPARABLE:
        found = [blocks.make_text(f"Not comparable, because {reasons}.", "lead")]
    else:
        found = [blocks.make_text(write_verdict(data), "lead")]
        if reasons:
            found.append(blocks.make_text(f"{capitalize(reasons)}."))
    clock = explain_equal_clock(data)
    if clock is not None:
        found.append(blocks.make_text(clock))
    parts = {row["part"]: row for row in data["waterfall"]}
    if set(parts) <= {name for name, _ in blocks.PARTS}:
        whole = pl.DataFrame(
            {
                "whole_ns": [data["step"]["before_ns"], data["step"]["after_ns"]],
                **{
                    f"{name}_ns": [row["before_ns"], row["after_ns"]] for name, row in parts.items()
                },
            }
        )
        found.append(
            blocks.make_shares(
                "The mean step", whole, ["before", "after"], whole="whole_ns", same_scale=True
            )
        )
    rows = [{"name": "step", **_amounts(data["step"])}]
    for row in data["waterfall"]:
        rows.append({"name": PART_LABELS[row["part"]], **_amounts(row)})
        if row["part"] == "idle":
            causes = [p for p in data["pairs"] if p["part"] == "idle"]
            rows += [{"name": f"idle: {c['label']}", **_amounts(c)} for c in causes]
    label = Column("name", pl.String, "part of the step; causes are parts of idle")
    found.append(blocks.make_table("What the step is made of", _frame(rows), (label, *_AMOUNTS)))
    for part in found[-1]["columns"]:
        part.pop("labels", None)
    found += [blocks.make_text(explain_shift(shift)) for shift in data["shifts"]]
    limits = [
        {"severity": "info", "text": make_printable(c["text"]), "remedy": ""}
        for c in data["checks"]
        if c["effect"] == "limits"
    ]
    found.append({"kind": "limits", "title": "What limits the conclusions", "rows": limits})
    return found


def _amounts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("before_ns", "after_ns")} | {"change_ns": row["delta_ns"]}


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _show_pairs(data: dict[str, Any]) -> list[Block]:
    """All pairs of operations, to be sorted."""
    rows = [
        {
            "name": pair["label"],
            **_amounts(pair),
            "what_happened": _explain(pair),
            "match": pair["grade"],
            "certainty": grade_certainty(pair),
            "part": PART_LABELS[pair["part"]],
            "before_launches": pair["before_instances"],
            "after_launches": pair["after_instances"],
        }
        for pair in data["pairs"]
    ]
    columns = (
        text("name", "the operation that costs most of the pair"),
        *_AMOUNTS,
        text("what_happened", "launches, and how long each one is"),
        text("match", "what the two sides' operations have in common"),
        text("certainty", "whether it is more than noise"),
        text("part", "part of the step"),
        real("before_launches", "launches of a step before", ""),
        real("after_launches", "launches of a step after", ""),
    )
    if not rows:
        return []
    table = blocks.make_table(
        "Operations, the largest change first",
        _frame(rows),
        columns,
        more="sightline compare --json",
    )
    note = "Each operation is in one pair, and all changes sum to the step's, to the nanosecond."
    return [blocks.make_text(note), table]


def _explain(pair: dict[str, Any]) -> str:
    if pair["part"] == "idle":
        return "idle time"
    return "; ".join(filter(None, (explain_pair(pair), explain_shapes(pair))))


def _show_host(data: dict[str, Any]) -> list[Block]:
    """What the host did of a step: operators and annotated ranges."""
    rows = [{**row, "change_ns": row["delta_ns"]} for row in data["host"]]
    if not rows:
        return []
    columns = (
        text("name", "operator, or path of nested ranges"),
        text("kind", "operator: its own time; range: all of it"),
        *_AMOUNTS,
        real("before_calls", "calls of a step before", ""),
        real("after_calls", "calls of a step after", ""),
    )
    table = blocks.make_table("On the host, per step", _frame(rows), columns)
    for part in table["columns"]:
        part.pop("labels", None)
    return [table]


def _show_steps(data: dict[str, Any]) -> list[Block]:
    """Each run's steps, one after the other."""
    rows = [
        {"name": f"{side}: {run['name']}", "step": number, "duration_ns": length}
        for side in ("before", "after")
        for run in data["sides"][side]
        for number, length in enumerate(run["step_lengths_ns"])
    ]
    columns = (
        Column("name", pl.String, "side and run"),
        real("step", "number of the step", ""),
        real("duration_ns", "its length, a mean over the ranks", "ns"),
    )
    if len(rows) <= 2:
        return []
    table = blocks.make_table("Steps", _frame(rows), columns, heat=("duration_ns",))
    for part in table["columns"]:
        part.pop("labels", None)
    return [table]


def _show_timelines(before: Sample, after: Sample) -> list[Block]:
    """One step of either side under one another, from the same moment and on one scale."""
    one, other = take_step(before), take_step(after)
    if one is None or other is None:
        return []
    light, dark = (draw_steps(one, other, dark=on) for on in (False, True))
    note = (
        "The step of median length of either side, of the first device of the first run. What is "
        "narrower than half a pixel is drawn together."
    )
    alt = "One step before and one after, stream by stream"
    return [blocks.make_text(note), {"kind": "image", "svg": light, "dark": dark, "alt": alt}]


def _show_findings(data: dict[str, Any]) -> list[Block]:
    """Problems fixed and new, and what fixing them was worth; other figures of a step."""
    found: list[Block] = []
    if data.get("findings"):
        # The cost of what was not found on a side is left blank: 0 ns would be a measurement.
        rows = [
            {**row, "cost_fell_by_ns": row["realized_ns"]}
            | ({f"{absent}_ns": None} if (absent := ABSENT.get(row["status"])) else {})
            for row in data["findings"]
        ]
        columns = (
            text("title", "problem"),
            text("status", "fixed, new or still there"),
            duration("before_ns", "what it cost of a step before"),
            duration("after_ns", "what it costs of a step after"),
            duration("predicted_ns", "the predicted gain, an upper bound"),
            duration("cost_fell_by_ns", "what the cost fell by: the step may have gained less"),
        )
        found.append(blocks.make_table("Findings, per step", _frame(rows), columns))
    metrics = [
        {
            "metric": row["metric"],
            "before": format_metric(row["before"], row["unit"]),
            "after": format_metric(row["after"], row["unit"]),
        }
        for row in data["metrics"]
    ]
    if metrics:
        figures = [text(name, name) for name in ("metric", "before", "after")]
        found.append(blocks.make_table("Other figures of a step", _frame(metrics), figures))
    return found


def _show_flame(before: Sample, after: Sample) -> list[Block]:
    """The differential flame graph of GPU time, or of the CPU's where there is none, per step."""
    runs = [(s.run, s.has_device) for s in (before, after) if s.run is not None]
    if len(runs) < 2:  # a fingerprint has no stacks
        return []
    try:
        sides = [
            timeline.stack_device_time(run) if has_device else build_stacks(run)
            for run, has_device in runs
        ]
        weight = choose_weight(sides[1], None)
    except MissingDataError:
        return []
    if weight not in sides[0].weights:
        return []
    scaled = scale_stacks(sides[0], after.count / before.count)
    page = flame_page.page_data(sides[1], weight, "", max_nodes=MAX_NODES, before=scaled)
    return [{"kind": "flame", "page": page}]
