"""The answer: one value, made once, that every view draws.

The terminal, the page, Markdown, JSON and whatever comes choose from it and lay it out; none of
them computes. The way to it: open, segment, measure, find, price, rank, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from sightline.answer.headline import describe_run, write_headline
from sightline.answer.price_words import has_gain

SCHEMA = "sightline-report/1"

Row = dict[str, Any]


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
    # Where the time went: the partition of each device's, or of the main thread's.
    breakdown: list[Row] = field(default_factory=list)
    host_breakdown: list[Row] = field(default_factory=list)
    step_usage: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    window_operations: int = 0
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
    # What limits the conclusions.
    limits: list[Row] = field(default_factory=list)
    schema: str = SCHEMA

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Answer:
        """The answer from what `to_dict` gave, as it was kept or sent."""
        return cls(**{f.name: plain[f.name] for f in fields(cls)})

    def to_dict(self) -> dict[str, Any]:
        """As programs read it: what `sightline report --json` prints."""
        return {"schema": self.schema} | {
            f.name: getattr(self, f.name) for f in fields(self) if f.name != "schema"
        }

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
    def headline(self) -> str:
        """The answer in one or two sentences, written from the ranked findings."""
        return write_headline(self)

    @cached_property
    def about(self) -> list[str]:
        """What was recorded: tools, devices, window, how much."""
        return describe_run(self)
