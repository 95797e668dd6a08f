"""Calls to the GPU that hold the host, where no GPU work was recorded.

Symptom
    Nothing but API calls in the recording: allocations and blocking copies in a loop, waits for the
    device, launches without number.

Why it hurts
    Each such call holds the thread that feeds the GPU. An allocation takes the driver's lock, a
    free and a blocking copy wait for the GPU, and a launch takes microseconds however small the
    kernel is.

Evidence
    The calls of the thread that makes most of them, by what they do, and how long they hold it; and
    the system's call in which it was for most of the longest time without them. The
    gain is a bound in the host's time: what the GPU did meanwhile was not recorded, and a call that
    waits for work that is needed gains nothing.

Threshold
    Ten calls and more, so that it is a loop, and over 5 % of the time from the thread's first call
    to its last one (TraceLens agent, 2026-08: its threshold for copies). Allocations and launches
    of over 100 ms are set-up at first use, and left out (as in allocator-churn). Waits have no
    gain: what they waited for may have been needed; where four fifths of their time are in waits of
    a millisecond and more (ours), the GPU worked. A time without calls is told from 30 % on.

Fix
    By what they do: allocate once before the loop; copy asynchronously, from pinned memory, and
    keep on the GPU what is not needed on the host; wait by events; launch larger kernels. Record
    the GPU's work, to see what it does meanwhile.

False positives
    A call that waits for a kernel that is needed: the time is the kernel's.

References
    CUDA Runtime API, "API synchronization behavior"; CUDA C++ Best Practices Guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.algebra.lookup import Texts
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import (
    CRITICAL_PCT,
    NOTABLE_PCT,
    Advice,
    Evidence,
    build_finding,
    grade_severity,
)
from sightline.timeline.api_calls import allocates, launches_kernels, synchronizes
from sightline.timeline.call_windows import find_longest_call_window, list_call_windows
from sightline.timeline.host_ranges import IN_API
from sightline.timeline.sampled_functions import count_functions, sort_samples
from sightline.timeline.system_calls import FILES, find_main_call

RULE = Rule("host-calls", "Calls that block the host")

_LEAST = 10
_SET_UP_NS = 100_000_000
_MOST_PCT = 50.0
# A wait with nothing to wait for takes tens of microseconds at most (ours: a hundred times that).
_LONG_NS = 1_000_000
_NEARLY_ALL = 0.8
_WORK = (
    "record the GPU's work (nsys profile --trace=cuda): its kernels take the time, so look at "
    "them first; removing the waits alone gains nothing"
)
_READ_AHEAD = (
    "read in parts, the next one while the GPU copies and computes the one before (a second "
    "thread, two pinned buffers), or map the file"
)
_NEXT = "record the GPU's work, too (nsys profile --trace=cuda), to see what it does meanwhile"


_LEAST_SAMPLES = 10  # ours: of fewer a share of half says nothing
_WIDTH = 48
_SHORTEN = (
    "shorten {} (all cores, -O3, a library's routine), do it on the GPU, or exclude it from the "
    "timed part if it only checks results"
)


class _Sampled(NamedTuple):
    name: str
    said: str


class _Deed(NamedTuple):
    name: str
    title: str
    does: str
    cause: str


_DEEDS = (
    _Deed(
        "allocate",
        "Memory is allocated and freed in a loop",
        "allocates and frees GPU memory",
        "each call takes the driver's lock, and a free waits for the GPU",
    ),
    _Deed(
        "copy",
        "Blocking copies in a loop",
        "is in copies that block it until they are done",
        "a copy that blocks waits for all work before it, and nothing is launched meanwhile",
    ),
    _Deed(
        "wait",
        "The host waits for the GPU in a loop",
        "waits for the GPU",
        "nothing is launched while the host waits",
    ),
    _Deed(
        "launch",
        "Launching takes the host's time",
        "launches kernels",
        "a launch takes the host microseconds, however small the kernel is",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for each kind of calls, over all processes."""
    windows = list_call_windows(run)
    if windows.is_empty():
        return
    host = run.table("host_ops", ["rank", "pid", "tid", "layer", "name", "start_ns", "end_ns"])
    calls = host.filter(IN_API).join(
        windows.select("rank", "pid", "tid"), on=["rank", "pid", "tid"], how="semi"
    )
    calls = calls.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    calls = calls.with_columns(deed=_name_deeds(Texts(calls.get_column("name"))))
    # What waits for the GPU takes as long as that needs.
    waits = pl.col("deed").is_in(["copy", "wait"]).fill_null(value=False)
    calls = calls.filter((pl.col("ns") < _SET_UP_NS) | waits)
    yield from _report_silence(run, calls)
    for deed in _DEEDS:
        mine = calls.filter(pl.col("deed") == deed.name)
        if _is_loop(mine, deed.name):
            yield from _report(run, deed, mine)


def _name_deeds(names: Texts) -> pl.Series:
    of = {
        "allocate": allocates(names),
        "wait": synchronizes(names),
        "launch": launches_kernels(names),
        "copy": _copies(names),
    }
    deed = pl.coalesce(pl.when(pl.lit(holds)).then(pl.lit(deed)) for deed, holds in of.items())
    return pl.select(deed.alias("deed")).to_series()


def _copies(names: Texts) -> pl.Series:
    # Rust's regular expressions look neither ahead nor behind.
    return names.match(r"^(?:(?:cuda|hip)Memcpy|cuMemcpy)") & ~names.match("Async")


def _is_loop(calls: pl.DataFrame, deed: str) -> bool:
    """Whether there are enough of them; of allocations, as many frees."""
    if deed != "allocate":
        return calls.height >= _LEAST
    frees = calls.get_column("name").str.contains("Free").sum()
    return min(frees, calls.height - frees) >= _LEAST


def _report(run: Run, deed: _Deed, calls: pl.DataFrame) -> Iterator[Finding]:
    cost, window = sum_column(calls, "ns"), max(find_longest_call_window(run), 1)
    each = calls.group_by("rank", "pid").agg(pl.col("ns").sum())
    worst = int(each.get_column("ns").max() or 0)  # type: ignore[arg-type]
    pct = 100 * worst / window
    if pct < NOTABLE_PCT:
        return
    by_name = (
        calls.group_by("name")
        .agg(n=pl.len(), ns=pl.col("ns").sum())
        .sort("ns", "name", descending=[True, False])
    )
    busy = deed.name == "wait" and _waits_for_work(calls)
    # One call of each kind stays.
    usual = calls.group_by("name").agg(ns=pl.col("ns").median()).get_column("ns").sum()
    yield build_finding(
        RULE,
        f"The host {deed.does} for {format_pct(pct)} of the time between its first call and its "
        f"last one: {format_several(calls.height, 'call')}, {format_ns(cost)}.",
        Evidence(
            [
                *(
                    f"{format_count(n)} × {name}, {format_ns(ns)}"
                    for name, n, ns in by_name.head(3).rows()
                ),
                "the GPU's work was not recorded: what it did meanwhile is not known",
            ],
            where={
                "ranks": calls.get_column("rank").unique().sort().to_list(),
                "cause": deed.name,
            },
        ),
        Advice(
            fix=_WORK if busy else _advise_further(run, deed.name),
            verify="sightline stats api_calls AFTER: total_ns of these calls",
            cause="the GPU probably works that long: waiting itself costs microseconds"
            if busy
            else deed.cause,
            sources=("CUDA Runtime API: API synchronization behavior",),
        ),
        price=(
            make_price(min(cost, window), "ns", pct),
            # What the host waited for may all have been needed.
            None
            if deed.name == "wait"
            else make_price(max(0, min(worst, window) - round(float(usual))), "ns"),
        ),
        severity=grade_severity(pct),
        confidence="low",
        title="The host waits for the GPU's work" if busy else deed.title,
        method="bound: the time that these calls block the thread, except one of each",
        states_limit=deed.name == "wait" and pct >= _MOST_PCT,
    )


def _waits_for_work(waits: pl.DataFrame) -> bool:
    """Whether nearly all of the time is in waits that are far longer than waiting itself costs."""
    long = waits.filter(pl.col("ns") >= _LONG_NS)
    return sum_column(long, "ns") >= _NEARLY_ALL * sum_column(waits, "ns")


def _report_silence(run: Run, calls: pl.DataFrame) -> Iterator[Finding]:
    """The longest time in which the thread makes no call, where that is much of its time."""
    place = ["rank", "pid", "tid"]
    ordered = calls.sort(*place, "start_ns").with_columns(
        since=pl.col("end_ns").cum_max().shift(1).over(place),
        before=pl.col("name").shift(1).over(place),
    )
    gap = pl.col("start_ns") - pl.col("since")
    longest = ordered.drop_nulls("since").with_columns(gap=gap).top_k(1, by="gap").to_dicts()
    window = max(find_longest_call_window(run), 1)
    pct = 100 * longest[0]["gap"] / window if longest else 0.0
    if pct < CRITICAL_PCT:
        return
    row = longest[0]
    inside = find_main_call(run, row["rank"], row["tid"], (row["since"], row["start_ns"]))
    is_file = inside is not None and re.search(FILES, inside["name"]) is not None
    what = "the GPU's work was not recorded: what it did meanwhile is not known"
    evidence = [f"between the end of  {row['before']}  and the next  {row['name']}", what]
    busiest = None if inside else _find_sampled_function(run, row)
    if busiest:
        evidence.insert(0, busiest.said)
    if inside:
        evidence.insert(
            0,
            f"{format_pct(100 * inside['ns'] / row['gap'])} of it in "
            f"{format_count(inside['calls'])} × {inside['name']}, the longest "
            f"{format_ns(inside['longest'])}",
        )
    deed = f": it is in {inside['name']}" if inside else ""
    deed = f": it runs {busiest.name}" if busiest else deed
    yield build_finding(
        RULE,
        f"The host makes no GPU call for {format_ns(row['gap'])} in a row, {format_pct(pct)} of "
        f"the time between its first call and its last one{deed}.",
        Evidence(
            evidence,
            rows=[{"rank": row["rank"], "start_ns": row["since"], "end_ns": row["start_ns"]}],
            where={"ranks": [row["rank"]], "cause": "silence"},
        ),
        Advice(
            fix=f"{_READ_AHEAD}; {_NEXT}"
            if is_file
            else f"{_SHORTEN.format(busiest.name)}; {_NEXT}"
            if busiest
            else "see what the program does there (sightline run --cpu-stacks perf_event -- "
            f"PROGRAM names the functions): reading, preparing, computing on the CPU; {_NEXT}",
            verify="sightline stats api_calls AFTER: the time between calls",
            cause="reading and writing files"
            if is_file
            else "the program's own code between two calls",
        ),
        price=(make_price(row["gap"], "ns", pct), None),
        severity="warning",
        confidence="high",
        title="The host reads or writes files"
        if is_file
        else "The host makes no GPU call for long",
        states_limit=pct >= _MOST_PCT,
    )


def _find_sampled_function(run: Run, gap: dict[str, Any]) -> _Sampled | None:
    """The function that most of the CPU samples of the gap's thread end in."""
    samples = run.once(sort_samples)
    if samples.is_empty() or not run.rows("stacks"):
        return None
    inside = samples.filter(
        pl.col("rank") == gap["rank"],
        pl.col("pid") == gap["pid"],
        pl.col("tid") == gap["tid"],
        pl.col("time_ns").is_between(gap["since"], gap["start_ns"]),
    )
    if inside.height < _LEAST_SAMPLES:
        return None
    name, count = next(iter(count_functions(run, inside)), ("", 0))
    if 100 * count < _MOST_PCT * inside.height:
        return None
    share = format_pct(100 * count / inside.height)
    called = fit_text(name, _WIDTH)
    of_all = f"{format_count(inside.height)} CPU samples of its thread there"
    return _Sampled(called, f"{share} of the {of_all} are in {called}")


def _advise_further(run: Run, deed: str) -> str:
    """What to do about the calls and what to record; of waits, what to record comes first."""
    if deed == "wait":
        return f"{_NEXT}; then {_advise(run, deed)}"
    return f"{_advise(run, deed)}; {_NEXT}"


def _advise(run: Run, deed: str) -> str:
    if deed == "allocate":
        return choose_fix(
            run,
            "allocate once before the loop, and reuse it",
            native="allocate once before the loop, or from a stream-ordered pool "
            "(cudaMallocAsync, cudaFreeAsync)",
        )
    if deed == "copy":
        return choose_fix(
            run,
            "copy less often and more at once, and keep on the GPU what the host does not need",
            native="keep on the GPU what the host does not need; copy the rest with "
            "cudaMemcpyAsync from pinned memory, and wait once",
        )
    if deed == "wait":
        return choose_fix(
            run,
            "wait once after the loop, and order work on the GPU by events",
            native="take cudaDeviceSynchronize out of the loop; order streams by events "
            "(cudaStreamWaitEvent)",
        )
    return choose_fix(
        run,
        "launch less often: merge kernels, give each more work, or replay them as a graph",
        native="merge kernels that follow each other, or capture them once "
        "(cudaStreamBeginCapture) and replay them as a CUDA graph",
    )
