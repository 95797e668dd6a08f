"""The answer: one value, made once, that every view draws.

The terminal, the page, Markdown, JSON and whatever comes choose from it and lay it out; none of
them computes. The way to it: open, segment, measure, find, price, rank, say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import takewhile
from typing import Any

from sightline.answer.price_words import has_gain, write_price
from sightline.core import registry
from sightline.core.model.describe import count_recordings
from sightline.core.registry import OF_WINDOW
from sightline.core.units import (
    format_about_ns,
    format_bytes,
    format_count,
    format_hours,
    format_joules,
    format_ns,
    format_pct,
    format_several,
)
from sightline.diagnosis.price import ALL_PCT, share_of
from sightline.diagnosis.ranking import OUTSIDE, SEGMENT

SCHEMA = "sightline-report/1"
LEAST_ROOM_PCT = 1.0  # of a window: what gains less when it is free is not worth a word
MAIN_THREAD = "Where the main thread's time went"  # of a program without a device
ALL_FREE = "all of these"  # the ladder's last rung (analysis limits)

Row = dict[str, Any]


def note_segments(segments: Sequence[Row]) -> str | None:
    """What figures of what repeats are not about, in a sentence; None where nothing is left out."""
    lengths: dict[str, int] = {}
    for row in segments:
        lengths[row["segment"]] = max(lengths.get(row["segment"], 0), row["duration_ns"])
    once = [f"{name} ({format_ns(ns)})" for name, ns in lengths.items() if name != "repeating"]
    if not once:
        return None
    return (
        f"These figures leave out what happened only once: {' and '.join(once)}; --window whole "
        "includes it."
    )


def note_sample(sample: Row) -> str | None:
    """Of how many steps the causes are, in a sentence; None where they are of all."""
    if not sample:
        return None
    asked, steps = format_count(sample["asked"]), format_count(sample["steps"])
    return (
        f"Causes from {asked} of {steps} steps; totals are exact. A finding's cost covers the "
        "whole run; the figures in its text cover the steps that it was seen in. --all analyzes "
        "every step."
    )


def note_ladder(ladder: Sequence[Row]) -> str | None:
    """How much shorter the window is if one thing is free, in a sentence; None where by nothing."""
    alone = [row for row in ladder if row["free"] != ALL_FREE]
    rows = [row for row in alone if row["gain_pct"] >= LEAST_ROOM_PCT]
    if not rows:
        return None
    parts = [f"{row['free']} {format_pct(row['gain_pct'])}" for row in rows]
    for together in (row["gain_pct"] for row in ladder if row["free"] == ALL_FREE):
        # What gains nothing alone may gain much behind the others: then it is named with them.
        hidden = [row["free"] for row in alone if row not in rows]
        shown = sum(row["gain_pct"] for row in rows)
        if hidden and together >= shown + LEAST_ROOM_PCT:
            *first, last = (rows[0]["free"] if len(rows) == 1 else ALL_FREE, *hidden)
            parts.append(f"{', '.join(first)} and {last} together {format_pct(together)}")
        elif len(rows) > 1:
            parts.append(f"{ALL_FREE} {format_pct(together)}")
    return f"If it took no time, the window would be shorter by: {', '.join(parts)}."


@dataclass(frozen=True)
class Answer:
    """Why a run is slow, as plain data: times int64 ns, sizes bytes, `_pct` 0 to 100.

    The fields are those of `sightline report --json`, in its order. `Session.answer` makes it.
    """

    # What was read.
    recordings: list[Row] = field(default_factory=list)
    devices: list[Row] = field(default_factory=list)
    # Its segments: which part of the timeline the figures are about, one row a device.
    window: list[Row] = field(default_factory=list)
    # Where much happens once, the figures are of what repeats: start-up, repeating and tail of each
    # rank, as `sightline stats segments`. Empty where they are of all of it, or of a chosen window.
    segments: list[Row] = field(default_factory=list)
    # Where the time went: the partition of each device's, or of the main thread's.
    breakdown: list[Row] = field(default_factory=list)
    host_breakdown: list[Row] = field(default_factory=list)
    step_usage: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    window_operations: int = 0
    # A step, or the window, as recorded and as it would have been without the recorder, where that
    # is known and differs: recorded_ns, ns, low_ns, high_ns, is_step. Costs and gains of findings
    # are those of the program without the recorder.
    unrecorded: Row = field(default_factory=dict)
    # How long the window would be if one thing were free: the rows of `sightline stats limits`.
    ladder: list[Row] = field(default_factory=list)
    # What to change: the most important first, what could not be judged last.
    findings: list[Row] = field(default_factory=list)
    # What else stands on the screen.
    kernels: list[Row] = field(default_factory=list)
    idle: list[Row] = field(default_factory=list)
    profiled_kernels: list[Row] = field(default_factory=list)
    sampled_kernels: list[Row] = field(default_factory=list)
    vendor_messages: dict[str, Any] = field(default_factory=dict)
    ops: list[Row] = field(default_factory=list)
    functions: list[Row] = field(default_factory=list)
    use: dict[str, list[Row]] = field(default_factory=dict)
    marks: dict[str, Any] = field(default_factory=dict)
    memory: list[Row] = field(default_factory=list)
    requests: dict[str, list[Row]] = field(default_factory=dict)
    system: dict[str, list[Row]] = field(default_factory=dict)
    bandwidth: list[Row] = field(default_factory=list)
    # Of an inference server: phases, gaps, tokens, load and about.
    serving: dict[str, Any] = field(default_factory=dict)
    # What limits the conclusions.
    limits: list[Row] = field(default_factory=list)
    # Of which steps the causes are, where the run is long: steps, asked, and excerpts, as
    # diagnosis.causes has them. It is left out of what programs read where all were asked.
    sample: Row = field(default_factory=dict)
    schema: str = SCHEMA

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Answer:
        """The answer from what `to_dict` gave, as it was kept or sent."""
        return cls(**{f.name: plain[f.name] for f in fields(cls) if f.name in plain})

    def to_dict(self) -> dict[str, Any]:
        """As programs read it: what `sightline report --json` prints."""
        return {"schema": self.schema} | {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name != "schema" and (f.name != "sample" or self.sample)
        }

    @cached_property
    def main_parts(self) -> list[Row]:
        """Parts of the main thread's time, of the rank that took longest; none beside a device."""
        rows = self.host_breakdown
        slowest = max(rows, key=lambda row: row["window_ns"], default={}).get("rank")
        return [row for row in rows if row["rank"] == slowest]

    @cached_property
    def main_usage(self) -> str | None:
        """What the operating system counted for that thread, in words; None where it did not."""
        slowest = self.main_parts[0]["rank"] if self.main_parts else None
        for row in self.step_usage if self.main_parts else ():
            if row["rank"] == slowest:
                parts = [f"runs for {format_pct(row['running_pct'])} of a step"]
                if row["queued_pct"] is not None:
                    parts.append(f"has no CPU for {format_pct(row['queued_pct'])}")
                return ", ".join([*parts, f"sleeps for {format_pct(row['asleep_pct'])}"])
        return None

    @cached_property
    def judged(self) -> list[Row]:
        """The findings that were judged."""
        return [f for f in self.findings if not f["abstained"]]

    @cached_property
    def not_judged(self) -> list[Row]:
        """The rules that lacked data; each says in `reason` what to record next."""
        return [f for f in self.findings if f["abstained"]]

    @cached_property
    def gains(self) -> list[Row]:
        """The findings whose fix gains something, the largest first."""
        return [f for f in self.judged if has_gain(f)]

    @cached_property
    def remarks(self) -> list[Row]:
        """The findings that gain nothing by themselves."""
        return [f for f in self.judged if not has_gain(f)]

    @cached_property
    def remarks_title(self) -> str:
        """What stands above the remarks that follow the gains."""
        told = any(0 in map(f.get, ("gain_ns", "gain_bytes", "gain_j")) for f in self.remarks)
        known = "no gain by itself, or no estimate of one" if told else "no estimate of a gain"
        return f"Also noticed ({known})"

    @cached_property
    def leads(self) -> list[Row]:
        """The remarks that come before all gains: what the run as a whole is bound by.

        Start-up does not bind what repeats: what does is said behind it.
        """
        most = 2 if self.judged and SEGMENT in self.judged[0]["where"] else 1
        return list(takewhile(lambda f: f["states_limit"] and not has_gain(f), self.judged[:most]))

    @cached_property
    def headline(self) -> str:
        """The answer in one or two sentences, written from the ranked findings."""
        return _write_headline(self)

    @cached_property
    def segments_note(self) -> str | None:
        """What the figures are not about, since it happens once, in a sentence."""
        return note_segments(self.segments)

    @cached_property
    def recorder_note(self) -> str | None:
        """What recording cost, where it is much, in a sentence."""
        known = self.unrecorded
        if not known:
            return None
        of = " a step" if known["is_step"] else ""
        about, low, high = (format_about_ns(known[name]) for name in ("ns", "low_ns", "high_ns"))
        return (
            f"Recorded {format_ns(known['recorded_ns'])}{of}; without the recorder about {about} "
            f"({low} to {high}). Costs and gains of findings are those of the program without "
            "the recorder."
        )

    @cached_property
    def ladder_note(self) -> str | None:
        """Where the room is, in a sentence: how much shorter the window is if one thing is free."""
        return note_ladder(self.ladder)

    @cached_property
    def overlap_note(self) -> str | None:
        """That gains are not to be added, in a sentence, where their sum is more than all.

        All is the window, or, of findings about idle time, the idle time of all devices.
        """
        of_window = [f for f in self.gains if f["gain_ns"] and share_of(f["rule"]) == OF_WINDOW]
        if sum(f["gain_pct"] or 0 for f in of_window) > ALL_PCT:
            return (
                "The findings' gains overlap: time that one of them saves, another cannot "
                "save again."
            )
        of_idle = [f for f in of_window if _is_about_idle(f["rule"])]
        idle_ns = sum(row["idle_ns"] or 0 for row in self.breakdown)
        if (
            not idle_ns
            or len(of_idle) < 2
            or 100 * sum(f["gain_ns"] for f in of_idle) <= ALL_PCT * idle_ns
        ):
            return None
        *first, last = dict.fromkeys(f["rule"] for f in of_idle)
        whose = f"{', '.join(first)} and {last}" if first else f"all {last} findings"
        return f"The gains of {whose} overlap: the GPU is idle for {format_ns(idle_ns)} in all."

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the figures, in sentences: of which part, of which program."""
        said = (
            note_sample(self.sample),
            self.segments_note,
            self.recorder_note,
            self.ladder_note,
            self.overlap_note,
        )
        return [note for note in said if note]

    @cached_property
    def about(self) -> list[str]:
        """What was recorded: tools, devices, window, how much."""
        return _describe_run(self)


def _is_about_idle(rule: str) -> bool:
    """Whether a rule prices gaps in which a device does nothing."""
    return ".subjects.idle." in registry.list_names("rules").get(rule.replace("-", "_"), "")


def _write_headline(answer: Answer) -> str:
    """One or two sentences from the answer."""
    judged = answer.judged
    rows = answer.breakdown
    if not rows:
        if answer.profiled_kernels:
            count = answer.counts["profiled_kernels"]
            if count == 1:
                return "One kernel launch was profiled; there is no timeline."
            return (
                f"{format_count(count)} kernel launches were profiled, one by one; there is "
                "no timeline."
            )
        if answer.host_breakdown:
            return _write_host(answer, judged)
        if answer.counts.get("host_ops"):
            return "No GPU operations were recorded; this report covers the CPU only."
        full = [row for row in answer.memory if row["peak_bytes"]]
        if full:
            most = max(full, key=lambda row: row["peak_bytes"])
            where = "the host" if most["device_id"] is None else f"GPU {most['device_id']}"
            first = f"{format_bytes(most['peak_bytes'])} were allocated on {where} at the peak."
            return f"{first} {judged[0]['summary']}" if judged else first
        if answer.use["devices"]:
            first = _describe_use(answer.use["devices"])
            return f"{first} {judged[0]['summary']}" if judged else first
        if answer.counts.get("call_sums"):
            first = "Sums by name were recorded; there is no timeline."
            return f"{first} {judged[0]['summary']}" if judged else first
        if jobs := answer.counts.get("jobs"):
            first = f"{format_several(jobs, 'job')} of a batch system."
            return f"{first} {judged[0]['summary']}" if judged else f"{first} Nothing stands out."
        if answer.functions:
            # Of stacks alone: where the time goes is the answer.
            return judged[0]["summary"] if judged else "Call stacks were recorded, and no timeline."
        return "The recording has no timeline."
    shares = [row["compute_pct"] for row in rows]
    low, high = format_pct(min(shares)), format_pct(max(shares))
    if len(rows) == 1:
        first = f"The GPU computes for {low} of the window"
    elif low == high:
        first = f"Each of the {len(rows)} GPUs computes for {low} of its window"
    else:
        first = f"The {len(rows)} GPUs compute for {low} to {high} of their windows"
    if answer.gains:
        best = answer.gains[0]
        price = ", ".join(write_price(best, rows)[:-1])
        before = [f["summary"] for f in answer.leads if f["where"].get(SEGMENT) == OUTSIDE]
        return " ".join([*before, f"{first}. {best['title']}: {price}."])
    if judged:
        return f"{first}. {judged[0]['summary']}"
    return f"{first}. No rule found a problem."


def _describe_run(answer: Answer) -> list[str]:
    """What was recorded: tools, devices, window, how much."""
    recordings, devices = answer.recordings, answer.devices
    parts = [", ".join(sorted({r["tool"] or r["format"] for r in recordings}))]
    if several := count_recordings(recordings):
        parts.append(several)
    if devices:
        kinds = sorted({d["name"] or "GPU of unknown name" for d in devices})
        parts.append(f"{len(devices)} × {', '.join(kinds)}")
    if answer.window:
        lengths = [w["window_end_ns"] - w["window_start_ns"] for w in answer.window]
        low, high = format_ns(min(lengths)), format_ns(max(lengths))
        span = low if low == high else f"{low} to {high}"
        parts.append(f"window {span} ({answer.window[0]['window']})")
        parts.append(format_several(answer.window_operations, "GPU operation"))
    if answer.counts.get("host_ops"):
        parts.append(f"{format_count(answer.counts['host_ops'])} CPU ranges")
    return parts


def _write_host(answer: Answer, judged: list[dict[str, Any]]) -> str:
    largest = max(answer.host_breakdown, key=lambda row: row["window_pct"])
    share = format_pct(largest["window_pct"])
    first = (
        f"No GPU operations were recorded. {share} of the main thread's time is {largest['part']}."
    )
    return f"{first} {judged[0]['summary']}" if judged else first


def _describe_use(devices: list[dict[str, Any]]) -> str:
    """How many GPUs a monitor watched, for how long, and how many joules they used."""
    times = [row[name] or 0 for row in devices for name in ("sampled_ns", "measured_ns")]
    watched = f"{format_several(len(devices), 'GPU')} watched for {format_hours(max(times))}"
    joules = [row["energy_j"] for row in devices if row["energy_j"] is not None]
    return f"{watched}: {format_joules(sum(joules))} in all." if joules else f"{watched}."
