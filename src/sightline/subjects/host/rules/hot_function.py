"""Where sampled threads ran, or for whom they waited, of a recording that has call stacks alone.

Symptom
    A profile of CPU stacks (perf, py-spy, folded stacks), and no timeline beside it.

Why it hurts
    It does not by itself: it says which function to change first, and that a thread which waits is
    not made faster by changing the function that it waits in.

Evidence
    The functions that stacks end in, by their own share of what ran, with the line that has most of
    it and the program's own function that calls it most. Waits are told by name
    (host_functions.tsv) and stand apart; so does the idle task of the operating system.

Threshold
    A function has over 10 % of what ran (ours: as for loading; below it, nothing stands out), of at
    least 50 samples (the standard error of a share of 10 % is then 4 points). A function without a
    name (an address, or a library alone) is named first by who calls it.

Fix
    Of Python: whole arrays at once (NumPy), a compiler (Numba, Cython), or less often. Of C, C++
    and the like: see the line in `perf annotate`. Of allocation, copies, locks and serialization:
    what host_functions.tsv says.

False positives
    Samplers that see a function only where it can be interrupted (safepoint bias) name its caller.

References
    Brendan Gregg, "CPU Flame Graphs" (ACM Queue 14.2, 2016); host_functions.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.text import fit_text, name_file
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.subjects.host.rules._first_call import list_first_calls
from sightline.timeline.call_windows import list_call_windows
from sightline.timeline.host_functions import IDLE, WAIT, list_host_functions
from sightline.timeline.host_parts import has_operators
from sightline.timeline.hot_stacks import HotStacks, read_hot_stacks
from sightline.timeline.runtimes import Runtime, list_runtimes
from sightline.timeline.sampled_runtimes import list_sampled_runtimes

RULE = Rule("hot-function", "Where the CPU's time goes")

LEAST_PCT = 10.0
LEAST_SAMPLES, LEAST_NS = 50, 200_000_000  # as many at 250 Hz, which samplers take at least
_ANYONE = "see the threads"  # in the advice for a wait that may be for anything
_UNNAMED = r"^(?:\[|0x)"  # a module, or an address
_WIDTH = 72  # of a name: C++ writes whole types into some
_MOSTLY_PCT = 50.0  # the larger part is what a person wants to know of first


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    if run.rows("device_ops") or has_operators(run):
        return
    if list_call_windows(run).height or list_first_calls(run).height:
        return  # calls of a GPU's runtime say more than samples, unless they are a handful
    hot = read_hot_stacks(run)
    if hot is None or hot.total < (LEAST_NS if hot.unit == "ns" else LEAST_SAMPLES):
        return
    ran, waits = hot.list_running(), hot.list_kind(WAIT)
    waited, worked = sum_column(waits, "value"), sum_column(ran, "value")
    # Of a library's function without a name, who calls it is known where that is the program's.
    is_named = ~pl.col("function").fill_null("[").str.contains(_UNNAMED)
    named = ran.filter(is_named | pl.col("own_function").is_not_null())
    longest = 0 if named.is_empty() else named.item(0, "value") / worked
    runtimes = _sum_runtimes(run)
    if 100 * waited > _MOSTLY_PCT * (waited + worked):
        yield _report_waiting(hot, ran, waits)
    elif runtimes and runtimes[0][1] > max(longest, LEAST_PCT / 100):
        yield _report_runtimes(hot, ran, runtimes)
    elif 100 * longest >= LEAST_PCT:
        yield _report_running(hot, ran, named.row(0, named=True))


def _sum_runtimes(run: Run) -> list[tuple[Runtime, float]]:
    """Compilers and garbage collectors that samples fell in, the largest share first."""
    samples = list_sampled_runtimes(run)
    rows = samples.group_by("runtime").len().drop_nulls().sort("runtime").rows()
    known = list_runtimes()
    sums: dict[str, tuple[Runtime, float]] = {}
    for row, count in rows:
        runtime, before = sums.get(known[row].deed, (known[row], 0.0))
        sums[runtime.deed] = runtime, before + count / samples.height
    return sorted(sums.values(), key=lambda each: -each[1])


def _report_runtimes(
    hot: HotStacks, ran: pl.DataFrame, runtimes: list[tuple[Runtime, float]]
) -> Finding:
    worked = sum_column(ran, "value")
    notable = [each for each in runtimes if 100 * each[1] >= LEAST_PCT]
    parts = " and ".join(f"{format_pct(100 * share)} {each.deed}" for each, share in notable)
    lines = [_describe(row, worked, hot.unit) for row in ran.head(MAX_ROWS).iter_rows(named=True)]
    return build_finding(
        RULE,
        f"Of {_format(worked, hot.unit)} in which a thread ran, {parts}.",
        Evidence((*lines, *_describe_rest(hot)), rows=_rows(ran)),
        Advice(
            fix="; ".join(dict.fromkeys(each.avoid for each, _ in notable)),
            verify="sightline flame AFTER -o flame.html",
            sources=tuple(each.source for each, _ in notable),
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _report_running(hot: HotStacks, ran: pl.DataFrame, top: dict[str, Any]) -> Finding:
    worked = sum_column(ran, "value")
    lines = [_describe(row, worked, hot.unit) for row in ran.head(MAX_ROWS).iter_rows(named=True)]
    known = None if top["row"] is None else list_host_functions()[top["row"]]
    fix = _advise(top) if known is None or not known.avoid else known.avoid
    looped = sum_column(ran, "looped")
    if 100 * looped > _MOSTLY_PCT * worked:
        lines.insert(
            0,
            f"{format_pct(100 * looped / worked)} in callbacks of asyncio's event loop, which "
            "serves nothing else meanwhile",
        )
        fix = f"{fix}; leave the loop free: await asyncio.to_thread(…), or a process pool"
    return build_finding(
        RULE,
        f"Of {_format(worked, hot.unit)} in which a thread ran, "
        f"{format_pct(100 * top['value'] / worked)} is in {_name(top)}"
        f"{_name_line(top)}{_name_caller(top)}.",
        Evidence((*lines, *_describe_rest(hot)), rows=_rows(ran)),
        Advice(
            fix=fix,
            verify="sightline flame AFTER -o flame.html",
            sources=("Gregg, CPU Flame Graphs (ACM Queue 14.2, 2016)",),
        ),
        price=(make_price(top["value"], "ns") if hot.unit == "ns" else None, None),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _report_waiting(hot: HotStacks, ran: pl.DataFrame, waits: pl.DataFrame) -> Finding:
    waited, worked = sum_column(waits, "value"), sum_column(ran, "value")
    first = next(
        (row for row in waits.iter_rows(named=True) if row["own_function"]),
        waits.row(0, named=True),
    )
    lines = [
        f"waits: {_describe(row, waited, hot.unit)}" for row in waits.head(3).iter_rows(named=True)
    ]
    lines += [
        f"runs: {_describe(row, worked, hot.unit)}" for row in ran.head(3).iter_rows(named=True)
    ]
    return build_finding(
        RULE,
        f"Threads wait for {format_pct(100 * waited / (waited + worked))} of the "
        f"{_format(waited + worked, hot.unit)} that were taken, mostly in {_name(first)}"
        f"{_name_caller(first)}. The rest, {_format(worked, hot.unit)}, is work.",
        Evidence(lines, rows=_rows(waits)),
        Advice(
            fix=_advise_waiting(waits),
            verify="sightline flame AFTER -o flame.html",
            sources=("Gregg, CPU Flame Graphs (ACM Queue 14.2, 2016)",),
        ),
        title="Threads wait for most of the time",
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _advise(top: dict[str, Any]) -> str:
    if top["layer"] == "python":
        return (
            "replace its loop with fewer, larger calls (whole arrays with NumPy, whole "
            "strings), compile it (Numba, Cython), or do it less often"
        )
    if top["own_function"] and re.search(_UNNAMED, top["function"] or "["):
        return (
            f"see how often {fit_text(top['own_function'], _WIDTH)} calls it, and with how much "
            "data: call it once for everything, or keep its result (the library's debug "
            "symbols name its function)"
        )
    if top["line"] is not None:
        return "look at that line, at what it reads, and in which order"
    return (
        "see which of its instructions take the time:  perf annotate (build with -g to see lines)"
    )


def _advise_waiting(waits: pl.DataFrame) -> str:
    """Of the longest waits the text that knows for whom: a pool's own threads, a connection."""
    known = list_host_functions()
    texts: list[str] = [known[row].avoid for row in waits.head(3).get_column("row")]
    return next((text for text in texts if _ANYONE not in text), texts[0])


def _name(row: dict[str, Any]) -> str:
    file = name_file(row["file"])
    place = f" ({file})" if file and row["line"] is None else ""
    if file and row["line"] is not None:
        place = f" ({file}:{row['line']})"
    return f"{fit_text(row['function'] or row['module'] or '[unknown]', _WIDTH)}{place}"


def _name_line(row: dict[str, Any]) -> str:
    if row["line"] is None or row["line_value"] == row["value"]:
        return ""
    return f", {format_pct(100 * row['line_value'] / row['value'])} of it in that line"


def _name_caller(row: dict[str, Any]) -> str:
    own: str | None = row["own_function"]
    if not own or own == row["function"]:
        return ""
    line = "" if row["own_line"] is None else f":{row['own_line']}"
    return f", called by {own} ({name_file(row['own_file'])}{line})"


def _describe(row: dict[str, Any], whole: int, unit: str) -> str:
    share = format_pct(100 * row["value"] / whole) if whole else ""
    amount = f"{_format(row['value'], unit)}{_name_line(row)}"
    return f"{share} {_name(row)}, {amount}{_name_caller(row)}"


def _describe_rest(hot: HotStacks) -> Iterator[str]:
    for kind, does in ((WAIT, "threads wait"), (IDLE, "no thread runs")):
        value = sum_column(hot.list_kind(kind), "value")
        if value:
            yield f"at the same time {does} for {_format(value, hot.unit)}"


def _format(value: int, unit: str) -> str:
    return format_ns(value) if unit == "ns" else format_several(value, "sample")


def _rows(leaves: pl.DataFrame) -> list[dict[str, Any]]:
    columns = ["layer", "function", "file", "line", "module", "value", "own_function", "own_file"]
    return leaves.select(columns).head(MAX_ROWS).to_dicts()
