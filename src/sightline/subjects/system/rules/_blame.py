"""What the rules about the operating system share: time that a device lost to one of its threads.

A device that is idle waits for a thread until that has launched the next operation: from the gap's
start to the launch call's return. What the operating system did with the thread in that time was
lost to the device; a rule that speaks for a cause of idle time has what no other rule has of it
(`idle_rules`). Where no device was recorded, the thread that ran longest is looked at instead,
for all of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.text import capitalize
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    build_finding,
    grade_severity,
    make_finding,
)
from sightline.replay.gains import sum_windows
from sightline.timeline.idle import list_deeds, list_idle_gaps
from sightline.timeline.idle_host import SYSTEM_CAUSES
from sightline.timeline.system_waits import ON_HOST, cut_to_spans, put_on_hosts
from sightline.timeline.thread_states import THREAD

_DEVICE = ["rank", "device_id"]


@dataclass(frozen=True)
class Blame:
    """Spans in which something waited for a thread, and how much of them was lost.

    `spans` has rank, device_id (null: no device was recorded), tid, start_ns, end_ns and lost_ns;
    `whole_ns` is what shares are of.
    """

    spans: pl.DataFrame
    whole_ns: int
    has_device: bool

    @property
    def cost_ns(self) -> int:
        """Lost on all devices."""
        return sum_column(self.spans, "lost_ns")

    @property
    def worst_ns(self) -> int:
        """Lost on the device that lost most."""
        return find_largest(self.spans.group_by(_DEVICE).agg(pl.col("lost_ns").sum()), "lost_ns")

    @property
    def pct(self) -> float:
        """The cost as a share of all devices' windows, or of the thread's time."""
        return 100 * self.cost_ns / max(self.whole_ns, 1)

    @property
    def tid(self) -> int:
        """The thread that most was lost to."""
        each = self.spans.group_by("tid").agg(pl.col("lost_ns").sum())
        return int(each.sort("lost_ns", "tid", descending=[True, False]).item(0, "tid"))

    @property
    def longest(self) -> pl.DataFrame:
        """The spans with most of it."""
        lost = self.spans.filter(pl.col("lost_ns") > 0)
        return lost.sort("lost_ns", "start_ns", descending=[True, False]).head(MAX_ROWS)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The same, to look up."""
        return self.longest.select(
            "rank", "device_id", "tid", "start_ns", "end_ns", "lost_ns"
        ).to_dicts()

    @property
    def where(self) -> dict[str, Any]:
        """Ranks that lose much of what the worst one does, and the longest spans as time ranges."""
        each = self.spans.group_by("rank").agg(pl.col("lost_ns").sum())
        much = 100 * pl.col("lost_ns") >= NOTABLE_PCT * pl.col("lost_ns").max()
        return {
            "ranks": each.filter(much).get_column("rank").sort().to_list(),
            "time_ranges": [[row["start_ns"], row["end_ns"]] for row in self.rows],
        }


def find_blame(
    run: Run, intervals: pl.DataFrame, least_pct: float = NOTABLE_PCT, *, cause: str | None = None
) -> Blame | None:
    """How much of what waits for threads lies in these intervals of theirs (tid, start_ns, end_ns).

    None where that is less of the window, in percent. Of a device's time it is what went to `cause`
    of `idle_parts`, where one is given.
    """
    has_device = bool(run.rows("device_ops"))
    spans = list_spans(run)
    if spans.is_empty() or intervals.is_empty():
        return None
    if has_device and cause:
        lost = spans.get_column(f"{cause}_ns")
    else:
        known = intervals.select(*ON_HOST, "start_ns", "end_ns")
        placed = put_on_hosts(run, spans)
        lost = measure_cover_between(placed, "start_ns", "end_ns", known, ON_HOST)
    length = pl.col("end_ns") - pl.col("start_ns")
    whole = sum_windows(run) if has_device else int(spans.select(length.sum()).item())
    blame = Blame(spans.with_columns(lost_ns=lost), whole, has_device)
    return blame if blame.cost_ns and blame.pct >= least_pct else None


def list_spans(run: Run) -> pl.DataFrame:
    """When something waited for a thread: rank, device_id, pid, tid, start_ns, end_ns. Made once.

    With a device also CAUSE_ns for what the system did with the thread meanwhile.
    """
    return run.once(_make_spans)


def _make_spans(run: Run) -> pl.DataFrame:
    if not run.rows("device_ops"):
        mine = run.ask("thread_critical_path").filter(pl.col("depth") == 0)
        return mine.group_by("rank", "tid", maintain_order=True).agg(
            pl.lit(None, pl.Int64).alias("device_id"),
            pl.lit(None, pl.Int64).alias("pid"),
            pl.col("start_ns").min(),
            end_ns=run.ask("thread_critical_path").get_column("end_ns").max(),
        )
    gaps = list_idle_gaps(run).drop_nulls("launch_id")
    causes = [f"{cause}_ns" for cause in SYSTEM_CAUSES]
    spans = gaps.select(*_DEVICE, "pid", "tid", "start_ns", *causes, end_ns="waited_ns")
    return spans.filter(pl.col("start_ns") < pl.col("end_ns"))


def list_parts(run: Run, blame: Blame, intervals: pl.DataFrame) -> pl.DataFrame:
    """The intervals cut to the spans that wait for their threads, with `length` in ns."""
    spans = blame.spans.filter(pl.col("lost_ns") > 0)
    return cut_to_spans(intervals, put_on_hosts(run, spans), ON_HOST)


def list_parts_of_sleeps(run: Run, blame: Blame, sleeps: pl.DataFrame) -> pl.DataFrame:
    """The same for sleeps, without those in what is a problem of its own: `idle_rules` has them."""
    parts = list_parts(run, blame, sleeps)
    if not blame.has_device:
        return parts
    threads = blame.spans.select("rank", "pid", "tid").unique(maintain_order=True)
    deeds = list_deeds(run).join(threads, on=threads.columns, how="semi")
    deeds = put_on_hosts(run, deeds)
    inside = measure_cover_between(parts, "start_ns", "end_ns", deeds, ON_HOST)
    # A thread that sleeps in a call leaves it when it has woken up: it is all in it, or nothing.
    apart = parts.filter(2 * inside <= parts.get_column("length"))
    # Unless a sleep only begins or ends in one, and all that was lost is the rest of it.
    return parts if apart.is_empty() else apart


def name_thread(run: Run, tid: int) -> str:
    """`name (tid)`, or `thread tid`."""
    names = run.table("threads").filter(pl.col("tid") == tid).get_column("thread_name").drop_nulls()
    return f"{names.item(-1)} ({tid})" if names.len() else f"thread {tid}"


def sum_by(parts: pl.DataFrame, name: str) -> list[tuple[str, int, int]]:
    """Values of a column with the sum of `length` and the count of each, the longest first."""
    summed = parts.drop_nulls(name).group_by(name).agg(ns=pl.col("length").sum(), n=pl.len())
    return summed.sort("ns", name, descending=[True, False]).select(name, "ns", "n").rows()


def describe_others(run: Run, parts: pl.DataFrame, name: str, verb: str) -> list[str]:
    """Lines such as `38.1 ms preempted by kworker/3:1 (812)`, the longest three."""
    return [
        f"{format_ns(ns)} {verb} {name_thread(run, int(tid)) if int(tid) else 'an idle CPU'}"
        for tid, ns, _ in sum_by(parts, name)[:3]
    ]


def report_blame(
    run: Run,
    rule: Rule,
    blame: Blame,
    summary: str,
    lines: Sequence[str],
    advice: Advice,
    *,
    confidence: str = "high",
) -> Iterator[Finding]:
    """The finding. The gain is a bound: what the device that lost most lost to it."""
    count = blame.spans.filter(pl.col("lost_ns") > 0).height
    longest = find_largest(blame.spans, "lost_ns")
    if blame.has_device:
        gaps = format_several(count, "gap")
        lines = [f"in {gaps} before a launch, at most {format_ns(longest)} in one", *lines]
        evidence = Evidence(lines, rows=blame.rows, where=blame.where)
        loss = Loss(blame.cost_ns, blame.worst_ns)
        yield make_finding(run, rule, summary, loss, evidence, advice, confidence=confidence)
        return
    yield build_finding(
        rule,
        summary,
        Evidence(lines, rows=blame.rows, where=blame.where),
        advice,
        price=(Price(blame.cost_ns, "ns", blame.pct), Price(blame.worst_ns, "ns")),
        severity=grade_severity(blame.pct),
        confidence=confidence,
        method="bound from the thread's own time",
    )


def name_victim(run: Run, blame: Blame) -> tuple[str, str]:
    """Who lost the time, as the subject of a sentence, and the thread that it waited for."""
    thread = name_thread(run, blame.tid)
    share = format_pct(blame.pct)
    if blame.has_device:
        return f"The GPU is idle for {share} of the window", thread
    return f"{capitalize(thread)} does not run for {share} of its time", thread


# What a rule may need from the states of threads.
COLUMNS = [*THREAD, "start_ns", "end_ns"]
