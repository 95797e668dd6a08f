"""What the rules about copies share: the copies that are theirs, and the finding about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_ns, format_pct
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    grade_severity,
    keep_notable,
    make_finding,
)
from sightline.diagnosis.gaps import LOOK_PCT, Claim, claim_gaps
from sightline.diagnosis.operators import find_main_operator
from sightline.diagnosis.ranking import REST
from sightline.replay.gains import sum_windows
from sightline.replay.replay import remove_ops, select_calls_of, select_ops, shorten_thinking
from sightline.subjects.copies.link import LinkUse, find_fastest_rate, measure_link
from sightline.subjects.copies.mapping import COPIES, maps_again
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.copies import ran_enough, runs_each_once, select_copies
from sightline.timeline.host_ranges import measure_in_ranges
from sightline.timeline.idle import list_system_waits

_ONCE = "A copy that is made once"
_SEND_ONCE = (
    "send it from or to pinned memory, or in parts while the GPU still computes; where host and "
    "GPU share their memory (integrated GPUs, APUs), do not copy at all"
)
_IN_PARTS = "each kernel ran once: what is sent hides behind computing only in parts"
_MOST_ONCE = 2  # copies of one kind that are not loops's (ours)
_LENGTH = pl.col("end_ns") - pl.col("start_ns")


def find_exposed_copies(
    run: Run,
    rule: Rule,
    what: str,
    *,
    cause: str,
    fix: str,
    sources: tuple[str, ...],
    with_host: bool = False,
    sent_ahead: bool = False,
    title: str | None = None,
    fix_pinned: str | None = None,
) -> Iterator[Finding]:
    """At most one finding: exposed time of these copies, and the gaps that they left behind.

    `fix_pinned`: what to do where the host's side is pinned already.
    `sent_ahead`: the fix hides them behind computing. `with_host`: without the copies, what the
    host does before each of their calls goes too.
    """
    if not run.rows("device_ops") or not ran_enough(run):
        return
    if set(rule.causes) <= set(COPIES) and maps_again(run):
        return  # offload-mapping says it of all of them
    # With the host's work for them, their end gains what is mostly another problem's.
    least = NOTABLE_PCT if with_host else LOOK_PCT
    every = sum_column(run.ask("breakdown"), "exposed_copy_ns")
    # All copies together and these gaps are a bound that costs nothing to ask.
    if claim_gaps(run, rule, extra_ns=every, least_pct=least) is None:
        return
    per_device = run.ask("copy_exposure").filter(pl.col("rule").is_in(rule.causes))
    alone = sum_column(per_device, "total_ns")
    gaps = claim_gaps(run, rule, extra_ns=alone, least_pct=least)
    if gaps is None:
        return
    copies = select_copies(run, rule.causes)
    if copies.is_empty():
        return
    worst = find_largest(per_device, "total_ns") + gaps.worst_ns
    hidden = _drop_leading(run, copies) if sent_ahead else copies
    ids = hidden.get_column("device_op_id")
    link = measure_link(run, copies)
    if link.is_told_by_other:
        return
    if link.is_pinned and fix_pinned is not None:
        fix = fix_pinned
    if link.is_limit:
        fix, cause = link.advise(), "the link is the limit, and not the memory or the streams"
    found = make_finding(
        run,
        rule,
        f"{what} {format_pct(100 * alone / sum_windows(run))} of the window"
        f"{_describe_idle_behind(run, gaps)}.",
        Loss(
            cost_ns=gaps.cost_ns,
            bound_ns=link.bound_gain(worst),
            behind_ns=0 if gaps.is_needed else gaps.behind_ns,
            # What is hidden still takes its time on the link.
            floor_ns=link.floor_ns if link.is_limit and not link.is_one_way else 0,
            # No replay lets the directions run at once, or keeps one engine for both of them: whose
            # end it is without one of them, the other's turn comes no sooner.
            change=None
            if gaps.is_needed or link.turns_ns is not None or link.is_one_way
            else lambda nodes: remove_ops(
                separate_calls(run, nodes, ids) if with_host else nodes, ids
            ),
        ),
        Evidence(
            [
                *_describe_copies(copies),
                *link.describe(),
                *_name_operator(run, copies),
            ],
            rows=_list_longest(copies),
            where={
                "ranks": copies.get_column("rank").unique().sort().to_list(),
                "copy_kind": copies.item(0, "copy_kind"),
                "src_kind": copies.item(0, "src_kind"),
                **({REST: True} if gaps.is_mostly_rest else {}),
            },
            calls=copies.select(host_op_id="launch_id", ns=pl.col("end_ns") - pl.col("start_ns")),
        ),
        Advice(
            fix=fix,
            verify=f"sightline stats breakdown AFTER: exposed_copy_pct under {NOTABLE_PCT:.0f}",
            cause=cause,
            sources=sources,
        ),
        title=title,
    )
    found = _keep_bytes(run, found, link)
    if copies.height <= _MOST_ONCE and _is_last(run, copies):
        found = _keep_sending(run, found, copies, alone)
    yield from keep_notable(run, found)


def _keep_bytes(run: Run, found: Finding, link: LinkUse) -> Finding:
    """The finding about pageable copies: pinned ones still take their bytes' time on the link.

    That hides behind kernels at best, which take as long as they take; behind none where each ran
    once, and waits for what was sent.
    """
    if link.is_pinned or link.is_limit or not found.gain_ns:
        return found
    breakdown = run.ask("breakdown")
    once = runs_each_once(run)
    stays = max(0, link.least_ns - (0 if once else find_largest(breakdown, "compute_ns")))
    gain = max(0, found.gain_ns - stays)
    if once and stays:
        found = replace(found, evidence=(*found.evidence, _IN_PARTS))
    share = 100 * gain / max(find_largest(breakdown, "window_ns"), 1)
    known = grade_severity(share) if stays else found.severity
    return replace(found, gain=Price(gain, "ns"), severity=known)


def _is_last(run: Run, copies: pl.DataFrame) -> bool:
    """Whether nothing that computes begins behind these copies: nothing is left to hide them."""
    kernels = list_class(run, COMPUTE, ["rank", "device_id", "start_ns"])
    kernels = select_starting_in(kernels, run.ask("windows"))
    first = copies.get_column("start_ns").min()
    return kernels.height > 0 and not (kernels.get_column("start_ns") > first).any()


def _keep_sending(run: Run, found: Finding, copies: pl.DataFrame, alone_ns: int) -> Finding:
    """The finding about copies that are made once, at the end: they still have to be sent.

    It gains what they take over the fastest rate at which a copy between host and device ran here.
    """
    best = find_fastest_rate(run)
    size = sum_column(copies, "bytes")
    if found.gain_ns is None:
        return found
    if not best or not size:
        # How much is sent was not recorded: how long it must take is not known.
        return replace(found, title=_ONCE, confidence="low", fix=_SEND_ONCE)
    least = int(size / best)
    gain = max(0, min(found.gain_ns, alone_ns - least))
    line = f"made once: at the fastest rate of any copy here its bytes take {format_ns(least)}"
    share = 100 * gain / max(find_largest(run.ask("breakdown"), "window_ns"), 1)
    return replace(
        found,
        title=_ONCE,
        gain=Price(gain, "ns"),
        severity=grade_severity(share),
        evidence=(*found.evidence, line),
        fix=_SEND_ONCE,
    )


def _drop_leading(run: Run, copies: pl.DataFrame) -> pl.DataFrame:
    """Without copies of a device that end before it computes at all, if others follow.

    What is sent ahead hides behind the computing before it: the window's first batch has none, and
    without it the window would only begin later.
    """
    place = ["rank", "device_id"]
    kernels = list_class(run, COMPUTE, [*place, "start_ns"])
    kernels = select_starting_in(kernels, run.ask("windows"))
    first = kernels.group_by(place).agg(computes=pl.col("start_ns").min())
    leads = pl.col("end_ns") <= pl.col("computes")
    later = copies.join(first, on=place, how="left", maintain_order="left").filter(
        ~leads.fill_null(value=False)
    )
    return later if later.height else copies


def separate_calls(run: Run, nodes: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The nodes with no time between these copies' calls and the calls before them.

    What the system kept the thread from is not work for them.
    """
    whole = select_calls_of(nodes, select_ops(nodes, ids))
    held = measure_in_ranges(nodes, list_system_waits(run), ["rank", "pid", "tid"])
    thought = nodes.get_column("prev_lag_ns").fill_null(0) - held
    return shorten_thinking(nodes, thought * whole.cast(pl.Int64))


def _describe_idle_behind(run: Run, gaps: Claim) -> str:
    """The idle time that the host's wait for these copies leaves."""
    idle = int(gaps.gaps.get_column("duration_ns").sum())
    pct = 100 * idle / sum_windows(run)
    return (
        f"; the GPU is idle for {format_pct(pct)} more because the host waits for them"
        if pct >= 1
        else ""
    )


def _name_operator(run: Run, copies: pl.DataFrame) -> list[str]:
    """The operator that most of the copies' time comes from, where operators were recorded."""
    mine = find_main_operator(run, copies.select("launch_id", duration_ns=_LENGTH))
    return [mine.describe()] if mine else []


def _describe_copies(copies: pl.DataFrame) -> list[str]:
    """'904 × memcpy HtoD pinned → device, 25.48 GB in 920 ms (27.7 GB/s)', the largest first."""
    length = pl.col("end_ns") - pl.col("start_ns")
    groups = (
        copies.group_by("kind", "copy_kind", "src_kind", "dst_kind")
        .agg(n=pl.len(), ns=length.sum(), size=pl.col("bytes").sum())
        .sort(
            "ns", "n", "kind", "copy_kind", "src_kind", descending=[True, True, False, False, False]
        )
    )
    lines = []
    for row in groups.head(3).iter_rows(named=True):
        words = [f"{format_count(row['n'])} × {row['kind']}", row["copy_kind"] or ""]
        if row["src_kind"]:
            words.append(f"{row['src_kind']} → {row['dst_kind']}")
        text = " ".join(w for w in words if w)
        speed = f" ({row['size'] / row['ns']:.1f} GB/s)" if row["size"] and row["ns"] else ""
        amount = f"{format_bytes(row['size'])} in " if row["size"] else ""
        lines.append(f"{text}, {amount}{format_ns(row['ns'])}{speed}")
    return lines


def _list_longest(copies: pl.DataFrame) -> list[dict[str, object]]:
    """The longest of them."""
    return (
        copies.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
        .sort("ns", "start_ns", descending=[True, False])
        .head(MAX_ROWS)
        .select(
            "device_op_id",
            "rank",
            "device_id",
            "stream_id",
            "start_ns",
            "end_ns",
            "bytes",
            "launch_id",
        )
        .to_dicts()
    )
