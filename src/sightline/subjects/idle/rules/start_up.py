"""What happens once before the steps that repeat, or behind them.

Symptom
    The recording begins with seconds in which the program loads, compiles, uploads, allocates or
    makes its first calls, and only then repeats.

Why it hurts
    Once, however long it takes: a program that runs for hours does not notice; one that runs for a
    minute, or a server that must be up soon, does. No step gets shorter when it goes.

Evidence
    The time before the first usual step (`sightline stats segments`), where it is longer than as
    many usual steps would be, and the device does not compute for most of it. What the time went
    to is asked of that part alone.

Threshold
    Over 5 % of the window more than as many usual steps (TraceLens agent, 2026-08: what takes over
    5 % is worth a word).

Fix
    Nothing in the step. Where start-up matters: keep what was compiled (a cache folder, ahead of
    time), load weights in one piece from pinned memory, run one step before what is measured.

False positives
    A program whose run is one long phase before a short loop; look at it with --window start-up.

References
    XProf and PyTorch's profiler leave warm-up steps out (torch.profiler.schedule);
    HolisticTraceAnalysis drops steps at the edges for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core import registry
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.diagnosis.ranking import SEGMENT
from sightline.timeline.segments import REPEATING, list_segments, measure_whole

RULE = Rule("start-up", "Start-up")

_MOST_LINES = 4
# Of the partition of a device's time what is no idle time.
_PARTS = {
    "compute_ns": "computing",
    "exposed_comm_ns": "in communication",
    "exposed_copy_ns": "in copies",
    "unknown_ns": "in operations that only wait",
}
_NAMES = {"start-up": "Start-up", "tail": "What comes behind the steps"}


def check(run: Run) -> Iterator[Finding]:
    """One remark for what comes before the usual steps, and one for what comes behind them."""
    if run.window != REPEATING:
        return
    segments, whole = list_segments(run), max(measure_whole(run), 1)
    steps = find_largest(segments, "steps")
    length = pl.col("end_ns") - pl.col("start_ns")
    for name, title in _NAMES.items():
        ns = find_largest(segments.filter(pl.col("segment") == name).select(ns=length), "ns")
        if 100 * ns < NOTABLE_PCT * whole:
            continue
        parts = list(_list_parts(run.with_window(name)))
        yield build_finding(
            RULE,
            f"{title} takes {format_ns(ns)}, {format_pct(100 * ns / whole)} of the recording, and "
            f"happens once: it is no part of the {format_several(steps, 'step')} that repeat.",
            Evidence(parts, where={SEGMENT: name}),
            Advice(
                fix=f"nothing in the step; where it matters, look at it with  --window {name}",
                verify=f"sightline stats segments AFTER: duration_ns of {name}",
                cause="loading, compiling, uploading and first calls",
            ),
            price=(Price(ns, "ns"), None),
            severity="info",
            title=title,
            states_limit=2 * ns >= whole,
        )


def _list_parts(part: Run) -> Iterator[str]:
    """What the time of all devices went to, the largest first."""
    breakdown = part.ask("breakdown")
    idle = (
        part.ask("idle_rules")
        .group_by("rule")
        .agg(ns=pl.col("duration_ns").sum(), longest=pl.col("duration_ns").max())
    )
    hosts = part.ask("idle_rules").group_by("rule", "host_op").agg(ns=pl.col("duration_ns").sum())
    rows = [(sum_column(breakdown, column), f"{word}") for column, word in _PARTS.items()]
    for rule, ns, longest in idle.select("rule", "ns", "longest").iter_rows():
        title = registry.load("rules", rule.replace("-", "_")).RULE.title
        most = hosts.filter((pl.col("rule") == rule) & (2 * pl.col("ns") > ns))
        name = most.get_column("host_op").drop_nulls()
        inside = f", mostly in {name[0]}" if name.len() else ""
        rows.append((ns, f"idle: {title}{inside}, at most {format_ns(longest)} at once"))
    rows.sort(key=lambda row: -row[0])
    for ns, text in rows[:_MOST_LINES]:
        if ns:
            yield f"{format_ns(ns)}  {text}"
    yield from _name_largest_copy(part)


def _name_largest_copy(part: Run) -> Iterator[str]:
    """The copy that takes a tenth of the time or more, with its bytes."""
    window = part.ask("windows").row(0, named=True)
    copies = part.table("device_ops", ["kind", "name", "start_ns", "end_ns", "bytes"]).filter(
        (pl.col("kind") == "memcpy")
        & pl.col("start_ns").is_between(window["window_start_ns"], window["window_end_ns"])
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    largest = copies.with_columns(ns=length).top_k(1, by="ns").to_dicts()
    whole = window["window_end_ns"] - window["window_start_ns"]
    for row in largest:
        if 10 * row["ns"] >= whole:
            size = "" if row["bytes"] is None else f", {format_bytes(row['bytes'])}"
            yield f"the largest copy: {row['name']}, {format_ns(row['ns'])}{size}"
