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

    Where nothing repeats: idle for 85 % of the window and more, nine tenths of that in ten pauses,
    and a tenth of it in loading code: a first run. So is one in which PyTorch's allocator takes
    memory from the driver from one end to the other.

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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.text import begin_lower
from sightline.core.units import format_count, format_note, format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.diagnosis.ranking import SEGMENT
from sightline.subjects.idle.rules._parts import (
    MOST_LINES,
    ask_rules,
    find_largest_copy,
    list_parts,
    load_rule,
    take_cost,
)
from sightline.timeline import causes
from sightline.timeline.cold_runs import find_cold_pauses, list_growth
from sightline.timeline.copies import is_too_little
from sightline.timeline.segments import REPEATING, list_segments, measure_whole

RULE = Rule("start-up", "Start-up", over_time=True)

_NAMES = {"start-up": "Start-up", "tail": "What comes after the steps"}


def check(run: Run) -> Iterator[Finding]:
    """One remark for what comes before the usual steps, and one for what comes behind them."""
    if run.window != REPEATING:
        yield from _check_cold(run)
        return
    segments, whole = list_segments(run), max(measure_whole(run), 1)
    steps = find_largest(segments, "steps")
    length = pl.col("end_ns") - pl.col("start_ns")
    for name, title in _NAMES.items():
        ns = find_largest(segments.filter(pl.col("segment") == name).select(ns=length), "ns")
        if 100 * ns < NOTABLE_PCT * whole:
            continue
        part = run.with_window(name)
        found_by_rule = ask_rules(part)
        copy = find_largest_copy(part)
        unknown, main = _measure_unrecorded(part), _find_main(found_by_rule, ns)
        share = format_pct(100 * ns / whole)
        found = build_finding(
            RULE,
            f"{title} takes {format_ns(ns)}, {share} of the recording, and happens once: "
            + _say_what_is_left(steps)
            + (f" Most of it: {begin_lower(main.title)}." if main else ""),
            Evidence(list(list_parts(part, found_by_rule, copy)), where={SEGMENT: name}),
            Advice(
                fix=("nothing in the step; " if steps else "")
                + "where it matters, "
                + (f"{main.fix}; " if main and main.rule == causes.CODE_LOADING else "")
                + _advise_copy(copy, ns)
                + f"look at it with  --window {name}",
                verify=f"sightline stats segments AFTER: duration_ns of {name}",
                cause="loading, compiling, uploading and first calls",
            ),
            price=(Price(ns, "ns"), None),
            severity="info",
            title=title,
            states_limit=2 * ns >= whole and (steps > 0 or is_too_little(run)),
        )
        yield found if 2 * unknown < ns else _say_unrecorded(found, unknown, ns, steps)


def _say_what_is_left(steps: int) -> str:
    """What a part that happens once is no part of; without steps the host was not recorded."""
    if steps:
        return f"it is not part of the {format_several(steps, 'step')} that repeat."
    return (
        "the GPU waits in one pause before nearly all of its kernels. What the host did meanwhile "
        "is not recorded."
    )


def _check_cold(run: Run) -> Iterator[Finding]:
    """Where nothing repeats, and nearly all of it is a few first pauses."""
    pauses = find_cold_pauses(run)
    if pauses.is_empty():
        return
    whole = max(sum_column(run.ask("breakdown"), "window_ns"), 1)
    ns = sum_column(pauses, "duration_ns")
    loading = pauses.filter(pl.col("rule") == causes.CODE_LOADING)
    if 2 * sum_column(loading, "duration_ns") >= whole:
        return  # that rule says so itself, and who compiles
    by_rule = pauses.group_by("rule").agg(pl.col("duration_ns").sum(), pl.len())
    lines = [
        f"{format_ns(took)}  {load_rule(rule).RULE.title}: {format_several(n, 'pause')}"
        for rule, took, n in by_rule.sort("duration_ns", "rule", descending=[True, False]).rows()
    ]
    grown = list_growth(run)
    if grown.height:
        lines = [
            f"{format_several(grown.height, 'call')} in which PyTorch's allocator took memory from "
            "the driver: no pass took as much before",
            *lines,
        ]
    rest = format_ns(whole - ns)
    yield build_finding(
        RULE,
        f"This is a first run: {format_note(pauses.height, f'pauses take {format_ns(ns)}')}, "
        f"{format_pct(100 * ns / whole)} of the window, in which code or memory is set up for the "
        f"first time. All the rest is {rest}, and nothing in it repeats.",
        Evidence([*lines[:MOST_LINES], *_describe_work(run)], where={SEGMENT: "start-up"}),
        Advice(
            fix="warm up, then record several steps: a first run does not show what each one "
            "would cost",
            verify="sightline stats steps AFTER: several, of about the same length",
            cause="loading, compiling, uploading and first calls",
        ),
        price=(Price(ns, "ns"), None),
        severity="info",
        title="Nothing but a first run",
        states_limit=True,
    )


def _describe_work(run: Run) -> Iterator[str]:
    """What the device did beside the pauses: its longest kernel, and all copies."""
    every = run.ask("kernels")
    if every.is_empty():
        return
    each = every.group_by("name").agg(pl.col("instances", "total_ns").sum())
    name, n, ns = each.sort("total_ns", "name", descending=[True, False]).row(0)
    copies = run.table("device_ops", ["kind", "start_ns", "end_ns"]).filter(
        pl.col("kind").is_in(["memcpy", "memset"])
    )
    copied = sum_column(copies.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    yield (
        f"meanwhile the GPU worked: {format_ns(ns)} of {format_ns(sum_column(each, 'total_ns'))} "
        f"in {format_count(n)} × {shorten_kernel_name(name)}"
        + (f"; {format_ns(copied)} in copies" if copied else "")
    )


def _say_unrecorded(found: Finding, unknown_ns: int, ns: int, steps: int) -> Finding:
    """The remark where most of the part is not a start-up: what the device did is not known."""
    return replace(
        found,
        title=f"{found.title}: not recorded",
        summary="Launched work waits for something that is not in the recording, for "
        f"{format_ns(unknown_ns)} of the {format_ns(ns)} outside the "
        f"{format_several(steps, 'step')} that repeat: neither idle time nor start-up of the "
        "program.",
        where={**found.where, "cause": "not_recorded"},
        fix="record from before that work is launched, and all devices",
        cause="what the device waited for was not recorded",
    )


def _find_main(found: Mapping[str, list[Finding]], ns: int) -> Finding | None:
    """What is found of the idle time that is most of so many ns."""
    most = [f for each in found.values() for f in each if 2 * (f.cost_ns or 0) >= ns]
    return max(most, key=take_cost, default=None)


def _measure_unrecorded(part: Run) -> int:
    """How much of the time of the device that loses most to it is unknown, ns."""
    lost = part.ask("idle_rules").filter(pl.col("cause") == "not_recorded")
    each = lost.group_by("rank", "device_id").agg(ns=pl.col("duration_ns").sum())
    return find_largest(each, "ns")


def _advise_copy(copy: Mapping[str, Any] | None, ns: int) -> str:
    """What to do about a fill that is most of the part, or a copy whose memory is not pinned."""
    if copy is None or 2 * copy["ns"] < ns:
        return ""
    if copy["kind"] == "memset":
        return "clear only what is read before it is written, or allocate no more than is used; "
    if "pageable" not in (copy["src_kind"], copy["dst_kind"]):
        return ""
    return "copy less, or from and to pinned memory (cudaHostAlloc, cudaHostRegister); "
