"""Most of the program's time lies before its first call of the GPU, or behind its last one.

Symptom
    A window of GPU work of seconds in a recording of minutes.

Why it hurts
    All other findings are about the window in which the GPU works. Who wants the program shorter
    has to begin outside it: data are made or read, a reference is computed on the CPU, results are
    checked.

Evidence
    The longest time without a call of the GPU's API, from the start of the recording, as the
    profiler states it, to the first GPU operation, or from the last one to the recording's end; and
    the system's call in which that thread was for most of it, where such calls were recorded, or
    the range that takes most of it.

Threshold
    That is more than half of the recording, and at least a second (ours:
    a process and its profiler take some tenths of a second to begin and end). Of programs whose
    framework launches for them nothing is said, as they load it first, unless the profiler is the
    framework's own, which begins behind that. It leads where it is four fifths and five seconds,
    or one second under such a profiler (ours), and takes four times what could be gained in the
    window.

Fix
    Do it on all cores, on the GPU, or once and keep the result; leave a check out of what is
    measured. Samples of the CPU name the functions.

False positives
    A program that waits for a person or for requests; the system's call says so where it was
    recorded. A recording that began long before the program.

References
    Amdahl, "Validity of the single processor approach" (1967).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.model.span import Span
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.ranking import OUTSIDE, SEGMENT
from sightline.timeline.host_functions import find_waiting_call
from sightline.timeline.host_ranges import IN_API, LOADING
from sightline.timeline.segments import REPEATING
from sightline.timeline.system_calls import FILES, find_main_call
from sightline.timeline.world import NATIVE, UNKNOWN, read_world

RULE = Rule("host-outside", "Most of the program is outside the GPU's window")
_LEAST_NS = 1_000_000_000
_MOST = 0.5
_LEADING_NS, _LEADING_INSIDE_NS = 5_000_000_000, 1_000_000_000
_LEADING = 0.8
# A range that takes less of it explains nothing (ours).
_LEAST_RANGE = 0.1
_RANGES = ("annotation", "op", "python")


class _Outside(NamedTuple):
    span: Span
    place: str


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, of a single process."""
    if run.window not in (None, REPEATING) or not run.rows("device_ops"):
        return
    if not run.rows("host_ops"):
        return
    recordings = run.table("recordings", ["rank", "start_ns", "end_ns"])
    if recordings.height != 1 or recordings.item(0, "rank") is None:
        return
    if read_world(run).framework not in (NATIVE, UNKNOWN) and not _is_within(run):
        return
    rank, begin, end = recordings.row(0)
    if _is_within(run) and None in (begin, end):
        begin, end = _find_extent(run)
    if None in (begin, end):
        return
    calls = run.table("host_ops", ["rank", "pid", "tid", "layer", "start_ns", "end_ns"])
    calls = calls.filter(IN_API).sort("start_ns")
    if calls.is_empty() or calls.get_column("pid").n_unique() != 1:
        return
    work = run.columns("device_ops", ("start_ns", "end_ns"))
    first, last = work.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    longest = max(
        _Outside(_find_silence(calls, (begin, first)), "before its first work on the GPU"),
        _Outside(_find_silence(calls, (last, end)), "after its last work on the GPU"),
        key=lambda side: side.span[1] - side.span[0],
    )
    ns = longest.span[1] - longest.span[0]
    if ns >= max(_LEAST_NS, _MOST * (end - begin)):
        yield _report(run, longest, rank, calls.item(0, "tid"), (begin, end))


def _is_within(run: Run) -> bool:
    """Whether the profiler is the framework's own, and began in the running program."""
    return len(run.parts) == 1 and run.is_all_of("kineto")


def _find_extent(run: Run) -> Span:
    """From the first to the last moment of the host's ranges and the devices' work."""
    times = [run.columns(table, ("start_ns", "end_ns")) for table in ("host_ops", "device_ops")]
    every = pl.concat(times)
    return every.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)


def _find_main_range(run: Run, span: Span) -> dict[str, Any] | None:
    """The outermost ranges of one name that take most of a span: name, ns, calls, longest."""
    columns = ["parent_id", "layer", "name", "start_ns", "end_ns"]
    ranges = run.table("host_ops", columns).filter(
        pl.col("parent_id").is_null(),
        pl.col("layer").is_in(_RANGES),
        pl.col("start_ns") < span[1],
        pl.col("end_ns") > span[0],
    )
    inside = ranges.select(
        pl.col("name").cast(pl.String),
        ns=pl.min_horizontal("end_ns", pl.lit(span[1]))
        - pl.max_horizontal("start_ns", pl.lit(span[0])),
    )
    sums = inside.group_by("name").agg(
        pl.col("ns").sum(), calls=pl.len(), longest=pl.col("ns").max()
    )
    if sums.is_empty():
        return None
    most = sums.sort("ns", "name", descending=[True, False]).row(0, named=True)
    return most if most["ns"] >= _LEAST_RANGE * (span[1] - span[0]) else None


def _find_silence(calls: pl.DataFrame, span: Span) -> Span:
    """The longest time in a span without a call; `calls` in order of time."""
    inside = calls.filter(pl.col("start_ns") < span[1], pl.col("end_ns") > span[0])
    edges = pl.DataFrame({"start_ns": [span[0], span[1]], "end_ns": [span[0], span[1]]})
    ordered = pl.concat([inside.select("start_ns", "end_ns"), edges]).sort("start_ns")
    gaps = ordered.select(since=pl.col("end_ns").cum_max().shift(1), until="start_ns").drop_nulls()
    longest = gaps.sort(pl.col("until") - pl.col("since")).tail(1)
    since, until = longest.row(0)
    return (since, until) if until > since else (span[0], span[0])


def _report(run: Run, outside: _Outside, rank: int, thread: int, whole: Span) -> Finding:
    ns, whole_ns = outside.span[1] - outside.span[0], whole[1] - whole[0]
    pct = 100 * ns / whole_ns
    inside = find_main_call(run, rank, thread, outside.span)
    inside = inside or _find_main_range(run, outside.span)
    evidence = [f"the recording lasts {format_ns(whole_ns)}"]
    if inside is not None:
        evidence.append(
            f"{format_pct(100 * inside['ns'] / ns)} of it in {format_count(inside['calls'])} × "
            f"{inside['name']}, the longest {format_ns(inside['longest'])}"
        )
    return build_finding(
        RULE,
        f"The program runs for {format_ns(ns)} {outside.place}, {format_pct(pct)} of the "
        "recording. All other findings cover the window in which the GPU works.",
        Evidence(
            evidence,
            rows=[{"rank": rank, "start_ns": outside.span[0], "end_ns": outside.span[1]}],
            where={"ranks": [rank], SEGMENT: OUTSIDE},
        ),
        Advice(
            fix=_advise(run, None if inside is None else str(inside["name"])),
            verify="sightline report AFTER: how long the program runs outside the window",
            cause="the program's own work on the CPU",
        ),
        price=(make_price(ns, "ns", pct), None),
        severity="info",
        confidence="high",
        states_limit=ns >= _LEADING * whole_ns
        and ns >= (_LEADING_INSIDE_NS if _is_within(run) else _LEADING_NS),
    )


def _advise(run: Run, call: str | None) -> str:
    if call is not None and re.search(LOADING, call):
        return choose_fix(
            run,
            "prepare the next batch ahead, on other threads or processes that persist; record "
            "several steps after a warm-up: the first batch starts them",
            pytorch="keep the loader's workers (persistent_workers=True), give it more of them and "
            "a larger prefetch_factor, or make decoding cheaper; record several steps after a "
            "warm-up: the first batch starts the workers",
        )
    if call is not None and re.search(FILES, call):
        return "read or write less, in larger pieces, or on another thread while the GPU works"
    if call is not None and (waits := find_waiting_call(call)) is not None:
        return waits.avoid
    return (
        "shorten what the CPU does there (making or reading data, a reference, checks): on all "
        "cores with -O3, on the GPU, or left out of what is measured; sightline run --cpu-stacks "
        "perf_event -- PROGRAM  names the functions"
    )
