"""Where the time of a program's thread goes, of a recording that has its ranges alone.

Symptom
    Ranges that the program marks, perhaps with calls of the operating system in them, and neither
    GPU operations nor operators nor call stacks.

Why it hurts
    It does not by itself: it says where to look first, and what happens once.

Evidence
    Each name's own time (without the ranges within it) on the thread that has most of it, how often
    it came and its longest instance. Calls that sleep are told by name (host_functions.tsv), with
    the range around them.

Threshold
    A name has over 10 % of the thread's time from its first to its last range (ours: as for
    loading), and that is a millisecond or more.

Fix
    What happens once is left out of the measured part, and what repeats is recorded several times;
    what the thread waits for is the cause of a wait; else shorten that part.

False positives
    Ranges that are open while the program waits for a person.

References
    NVTX and OpenTelemetry documentation: ranges say what the program does, not how.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.timeline.host_functions import find_waiting_call
from sightline.timeline.host_parts import has_operators

RULE = Rule("hot-range", "Where the host's time goes")

LEAST_PCT, LEAST_NS = 10.0, 1_000_000
# "other" is what a Chrome trace has without saying what it is.
_MARKED = ("annotation", "step", "other")
_MOSTLY_PCT = 50.0  # less of the thread's time in ranges says little about all of it (ours)
_ONCE_PCT = 80.0  # in one instance: what is left in the others is what comes again (ours)
_ALL_PCT = 99.0
# Their ranges are what an energy meter was asked about, and no work of a thread.
_METERS = ("energy_csv", "zeus_tables")
_THREAD = ["rank", "pid", "tid"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    if any(run.rows(name) for name in ("device_ops", "cpu_samples", "stack_weights")):
        return
    if not run.rows("host_ops") or has_operators(run):
        return
    if set(run.table("recordings", ["format"]).get_column("format").cast(pl.String)) <= {*_METERS}:
        return
    own = _measure_own(run)
    if own.is_empty():
        return
    spent = own.group_by(_THREAD, maintain_order=True).agg(
        pl.col("own_ns").sum(), window=pl.col("end_ns").max() - pl.col("start_ns").min()
    )
    main = spent.sort("own_ns", descending=True, maintain_order=True).head(1)
    window = int(main.item(0, "window"))
    mine = own.join(main.select(_THREAD), on=_THREAD, how="semi", nulls_equal=True)
    names = (
        mine.group_by("layer", "name", maintain_order=True)
        .agg(
            pl.col("own_ns").sum(),
            count=pl.len(),
            longest_ns=(pl.col("end_ns") - pl.col("start_ns")).max(),
            longest_own_ns=pl.col("own_ns").max(),
            around=pl.when(pl.col("around").n_unique() == 1).then(pl.col("around").first()),
        )
        .sort("own_ns", "name", descending=[True, False])
    )
    top = names.row(0, named=True)
    covered = int(names.get_column("own_ns").sum())
    if window < LEAST_NS or 100 * covered < _MOSTLY_PCT * window:
        return
    if top["count"] == 1 and 100 * top["own_ns"] >= _ALL_PCT * window:
        return  # one range around all of it says nothing of what is in it
    if 100 * top["own_ns"] >= LEAST_PCT * window:
        yield _report(names, top, window)


def _measure_own(run: Run) -> pl.DataFrame:
    """The ranges of a single process that marks its own, with `own_ns` and the name `around`."""
    columns = ["host_op_id", "parent_id", *_THREAD, "layer", "name", "start_ns", "end_ns"]
    host = run.table("host_ops", columns).with_columns(pl.col("layer", "name").cast(pl.String))
    host = host.filter(pl.col("layer") != "overhead")
    is_marked = host.get_column("layer").is_in(list(_MARKED))
    if not is_marked.any() or host.get_column("pid").n_unique() > 1:
        return host.clear()
    host = _drop_lone(host)
    length = pl.col("end_ns") - pl.col("start_ns")
    inner = host.group_by("parent_id").agg(inner_ns=length.sum()).drop_nulls("parent_id")
    return (
        host.join(inner, left_on="host_op_id", right_on="parent_id", how="left")
        .join(
            host.select(parent_id="host_op_id", around="name"),
            on="parent_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(own_ns=(length - pl.col("inner_ns").fill_null(0)).clip(0))
    )


def _drop_lone(host: pl.DataFrame) -> pl.DataFrame:
    """Without ranges that nest nothing, though others begin in them: they are of no one thread.

    NVTX's ranges of start and end may end on another thread, and have no place in its nesting.
    """
    parents = host.get_column("parent_id").drop_nulls().unique()
    rows = host.with_columns(
        is_lone=pl.col("parent_id").is_null() & ~pl.col("host_op_id").is_in(parents.implode())
    ).sort(*_THREAD, "start_ns", "end_ns", maintain_order=True)
    following = pl.col("start_ns").shift(-1).over(_THREAD)
    holds = (following < pl.col("end_ns")).fill_null(value=False)
    return rows.filter(~(pl.col("is_lone") & holds)).drop("is_lone")


def _report(names: pl.DataFrame, top: dict[str, Any], window: int) -> Finding:
    waits = find_waiting_call(top["name"]) if top["layer"] == "os" else None
    once = top["count"] == 1 or _ONCE_PCT * top["own_ns"] <= 100 * top["longest_own_ns"]
    share = format_pct(100 * top["own_ns"] / window)
    where = "" if top["around"] is None else f", in {top['around']}"
    if waits:
        does, times = f"sleeps in {top['name']}{where}", ""
        fix = waits.avoid
    elif once:
        count = top["count"]
        does = f"is in {top['name']}{where}"
        times = ", once" if count == 1 else f", nearly all of it in one of {format_count(count)}"
        fix = (
            "exclude one-time work from the measured part, and record several repetitions of the "
            "rest"
        )
    else:
        does = f"is in {top['name']}{where}"
        times = f", in {format_several(top['count'], 'instance')}"
        fix = "see which lines of it run:  sightline run --stacks -- PROGRAM; then shorten it"
    return build_finding(
        RULE,
        f"The thread {does} for {share} of its {format_ns(window)}{times}.",
        Evidence(
            [
                _describe(row, window)
                for row in names.head(MAX_ROWS).iter_rows(named=True)
                if row["own_ns"]
            ],
            rows=names.head(MAX_ROWS).to_dicts(),
        ),
        Advice(fix=fix, verify="sightline report AFTER: calls on the CPU"),
        price=(make_price(top["own_ns"], "ns", 100 * top["own_ns"] / window), None),
        title="The program waits" if waits else RULE.title,
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _describe(row: dict[str, Any], window: int) -> str:
    text = f"{format_pct(100 * row['own_ns'] / window)} {row['name']}, {format_ns(row['own_ns'])}"
    if row["count"] == 1:
        return f"{text}, once"
    longest = format_pct(min(100.0, 100 * row["longest_ns"] / max(row["own_ns"], 1)))
    return (
        f"{text} in {format_count(row['count'])}, the longest {format_ns(row['longest_ns'])} "
        f"({longest})"
    )
