"""How a rule says what it found: the finding with its gain replayed, or that it could not look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct
from sightline.replay.gains import (
    HOST,
    Change,
    Gain,
    name_next_limit,
    replay_gain,
    replay_unslowed_gain,
    sum_windows,
)
from sightline.replay.moved_run import UnrecordedRun
from sightline.replay.unrecorded import LEAST_SHARE
from sightline.timeline.callers import find_callers
from sightline.timeline.causes import HEAT, OTHER_CLOCK, POWER
from sightline.timeline.engine_steps import list_engine_steps

# A problem is worth a word above 5 % of the window (TraceLens agent, 2026-08: copies and exposed
# communication are flagged above 5 % of the time), and critical above 30 % (XProf: collectives,
# transfers and shuffles above 30 % of the step bound it).
NOTABLE_PCT, CRITICAL_PCT = 5.0, 30.0

_OF_CLOCKS = {POWER, HEAT, OTHER_CLOCK}  # what makes kernels longer, and no device idle
# A cost that is so many times what its sentence counts says where the rest lies (ours).
SEEN_FACTOR = 1.1
# A gain of less than this share of the lost time has another limit behind it (ours).
SEEN_OF_BOUND = 0.9
MAX_ROWS = 5  # pieces of evidence that a finding carries; all are in the analyses


def grade_severity(pct: float) -> str:
    """How loud a finding is, by its share of the window."""
    if pct >= CRITICAL_PCT:
        return "critical"
    return "warning" if pct >= NOTABLE_PCT else "info"


LOWER = {"high": "medium", "medium": "low", "low": "low"}  # one grade less of confidence


@dataclass(frozen=True)
class Loss:
    """What a problem takes: all devices' time, and what its end would gain.

    `change` takes the problem out of the dependency graph, and the gain is the replay's; where
    nothing can be replayed, `bound_ns` is the gain: the lost time of the slowest device. What is
    hidden and not gone still takes `floor_ns`: no window gets shorter than that. `behind_ns` is
    idle time in the same places that may follow from it, or from what the host did next (`behind`).
    """

    cost_ns: int
    bound_ns: int
    change: Change | None = None
    floor_ns: int = 0
    behind_ns: int = 0
    behind: str = "the rest of the same gaps, in which the host goes on"


# How the line begins that says why an end gains more than what was seen to be lost.
ELSEWHERE = "most of the gain lies elsewhere: "


@dataclass(frozen=True)
class Evidence:
    """What shows it: lines for a person, rows to look up, and where in the run it is.

    `calls` are the host operations that are to blame, with what each one takes (`host_op_id`,
    `ns`): who called most of them is named.
    """

    lines: Sequence[str]
    rows: Sequence[dict[str, Any]] = ()
    where: dict[str, Any] = field(default_factory=dict)
    calls: pl.DataFrame | None = None


@dataclass(frozen=True)
class Advice:
    """What to change, and how to see that it helped; why it happens, and who says so."""

    fix: str | None = None
    verify: str | None = None
    cause: str | None = None
    sources: Sequence[str] = ()


def make_finding(
    run: Run,
    rule: Rule,
    summary: str,
    loss: Loss,
    evidence: Evidence,
    advice: Advice,
    *,
    confidence: str = "high",
    title: str | None = None,
    is_bound: bool = False,
) -> Finding:
    """A finding with its gain replayed; `is_bound` where even the replay is more than can be won.

    A gain of more than twice the time in which the problem is seen carries one grade less of
    confidence. The severity follows the gain, not the cost: what shortens nothing when it is gone
    is a note. Only what costs over CRITICAL_PCT stays a warning: something else limits as much
    behind it.
    """
    windows = sum_windows(run)
    pct = 100 * loss.cost_ns / windows
    gain_ns, method = loss.bound_ns, "bound from the timeline: the lost time of the slowest device"
    lines, where = list(evidence.lines), dict(evidence.where)
    if evidence.calls is not None and (caller := _find_main_caller(run, evidence.calls)):
        where["caller"] = caller[0]
        if not any(caller[0] in line for line in lines):
            lines.append(f"{format_pct(caller[1])} of it comes from  {caller[0]}")
    if loss.change is not None:
        replayed = _replay(run, loss, loss.change)
        gain_ns = max(0, min(replayed.ns, replayed.before_ns - loss.floor_ns))
        if rule.causes and not set(rule.causes) & _OF_CLOCKS:
            gain_ns = min(gain_ns, _measure_hidden(run))
        method = "replay of the dependency graph without it"
        if is_bound:
            method = (
                "bound from a replay: how much of it can be gained, the recording does not show"
            )
        if 4 * gain_ns < loss.bound_ns and pct >= NOTABLE_PCT:
            lines += _explain_small_gain(run, loss, replayed, gain_ns)
    longest = find_largest(run.ask("breakdown"), "window_ns")
    share = 100 * gain_ns / max(longest, 1)
    # More than that rests on what the replay assumes: that the host could do at once what it did
    # after this, whatever it needed for it.
    if gain_ns > 2 * loss.cost_ns:
        confidence = LOWER[confidence]
        if gain_ns > 2 * (loss.cost_ns + loss.behind_ns):
            lines.append(
                f"{ELSEWHERE}without this the host is ahead, and later launches and copies hold "
                "the GPU up no more"
            )
    # What its end gains was lost to it, though not all of that lies where the problem is seen.
    cost_ns = min(max(loss.cost_ns, gain_ns), windows)
    pct = 100 * cost_ns / windows
    if loss.behind_ns and cost_ns >= SEEN_FACTOR * loss.cost_ns:
        lines.insert(0, _name_behind(loss, cost_ns))
    return build_finding(
        rule,
        summary,
        Evidence(lines, rows=evidence.rows, where=where),
        advice,
        price=(Price(cost_ns, "ns", pct), Price(gain_ns, "ns")),
        severity="warning"
        if share < NOTABLE_PCT and pct >= CRITICAL_PCT
        else grade_severity(share),
        confidence=confidence,
        title=title,
        method=method,
        direct_ns=loss.cost_ns + loss.behind_ns,
    )


def _replay(run: Run, loss: Loss, change: Change) -> Gain:
    """The gain; where the host takes much of it back, at the pace that it has unrecorded."""
    replayed = replay_gain(run, change)
    if replayed.ns >= SEEN_OF_BOUND * loss.bound_ns or isinstance(run, UnrecordedRun):
        return replayed
    limit = name_next_limit(run, replayed)
    if limit is None or limit[0] != HOST:
        return replayed
    unslowed = replay_unslowed_gain(run, change)
    # A run that would itself be shorter without its recorder is another one than was recorded.
    is_same = unslowed is not None and unslowed.before_ns >= (1 - LEAST_SHARE) * replayed.before_ns
    return unslowed if unslowed and is_same and unslowed.ns > replayed.ns else replayed


def _name_behind(loss: Loss, cost_ns: int) -> str:
    """Where the cost lies that the finding's sentence does not count: no more than it is."""
    rest = min(loss.behind_ns, cost_ns - loss.cost_ns)
    return (
        f"of its cost {format_ns(loss.cost_ns)} is that time, and {format_ns(rest)} {loss.behind}"
    )


def build_finding(
    rule: Rule,
    summary: str,
    evidence: Evidence,
    advice: Advice,
    *,
    price: tuple[Price | None, Price | None] = (None, None),
    severity: str | None = None,
    confidence: str = "high",
    title: str | None = None,
    method: str | None = None,
    direct_ns: int | None = None,
    states_limit: bool = False,
    is_asked: bool = False,
) -> Finding:
    """The finding, as all rules make it; without a severity, the share that it gains decides.

    `price` is what it costs, and what its end gains; `method` says how that was found, `direct_ns`
    what is lost in the places where the problem is seen. Who called is not looked up: the calls of
    the evidence are of findings that are replayed.
    """
    cost, gain = price
    share = None if gain is None else gain.pct
    return Finding(
        rule=rule.name,
        title=title or rule.title,
        severity=grade_severity(share or 0.0) if severity is None else severity,
        summary=summary,
        cost=cost,
        gain=gain,
        confidence=confidence,
        evidence=tuple(evidence.lines),
        where=dict(evidence.where),
        fix=advice.fix,
        verify=advice.verify,
        cause=advice.cause,
        method=method,
        rows=tuple(evidence.rows),
        sources=tuple(dict.fromkeys(advice.sources)),
        states_limit=states_limit,
        is_asked=is_asked,
        direct_ns=direct_ns,
    )


def price_part(
    cost: float, gain: float | None, whole: float, unit: str
) -> tuple[Price, Price | None]:
    """A cost and a gain of one whole, such as a device's memory: no gain is above its cost."""
    whole = whole if whole > 0 else math.inf  # of nothing, nothing is a share
    if gain is None:
        return Price(cost, unit, 100 * cost / whole), None
    gain = max(type(gain)(0), min(gain, cost))
    return Price(cost, unit, 100 * cost / whole), Price(gain, unit, 100 * gain / whole)


def _find_main_caller(run: Run, calls: pl.DataFrame) -> tuple[str, float] | None:
    """The user's line, module or range that takes at least half of the time, and its share, %."""
    known = calls.drop_nulls("host_op_id")
    if known.is_empty():
        return None
    found = (
        known.with_columns(caller=find_callers(run, known.get_column("host_op_id")))
        .group_by("caller")
        .agg(pl.col("ns").sum())
        .drop_nulls("caller")
    )
    whole = max(sum_column(calls, "ns"), 1)
    largest = found.filter(2 * pl.col("ns") >= whole).sort("caller")
    return None if largest.is_empty() else (largest.item(0, 0), 100 * largest.item(0, 1) / whole)


def _measure_hidden(run: Run) -> int:
    """How long the device that loses most does not compute, ns: no end of a wait gains more.

    That kernels run beside each other which followed each other so far is not the host's to gain:
    serialized-streams and few-blocks say where it can be.
    """
    hidden = ("idle_ns", "exposed_copy_ns", "exposed_comm_ns", "unknown_ns")
    device = ["rank", "device_id"]
    known = run.ask("breakdown").select(*device, ns=pl.sum_horizontal(hidden))
    if list_engine_steps(run).height:  # what no request asked for cannot be computed earlier
        empty = run.ask("idle").filter(pl.col("cause") == "no_request")
        known = known.join(empty.select(*device, "total_ns"), on=device, how="left").with_columns(
            ns=pl.col("ns") - pl.col("total_ns").fill_null(0)
        )
    return find_largest(known, "ns")


def _explain_small_gain(run: Run, loss: Loss, replayed: Gain, gain_ns: int) -> Iterator[str]:
    """What limits the run as soon as the problem is gone."""
    gained = f"gains {format_ns(gain_ns)} of {format_ns(loss.bound_ns)}"
    if replayed.after_ns < loss.floor_ns:
        yield f"hiding it {gained}: it still takes {format_ns(loss.floor_ns)} by itself"
    elif (found := name_next_limit(run, replayed)) is not None:
        limit, pct = found
        yield (
            f"removing it alone {gained}: the next limit is {limit}, then {format_pct(pct)} of the "
            "critical path"
        )


def keep_notable(run: Run, found: Finding) -> Iterator[Finding]:
    """The finding, if it costs or gains so much of the window that it is worth a word."""
    longest = max(find_largest(run.ask("breakdown"), "window_ns"), 1)
    gains = 100 * (found.gain_ns or 0) / longest
    if max(found.cost_pct or 0.0, gains) >= NOTABLE_PCT:
        yield found


def abstain(rule: Rule, reason: str) -> Finding:
    """'Could not look', which is another answer than 'no problem'."""
    return Finding(rule.name, rule.title, "info", "not judged", abstained=True, reason=reason)
