"""What the members of the registry are: an importer, an analysis, a rule, a finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from sightline.core import registry
from sightline.core.model.columns import Column


@dataclass(frozen=True)
class Importer:
    """A recording format. Its module also has `read(source, options) -> Imported`.

    `strong` and `weak` are patterns over the first 64 kB of decompressed content: a strong match
    decides, a weak one decides where no other format is strong. `looks_like` says in words what
    was looked for; it is shown when no importer takes a file. Text that stands in programs' logs
    may begin anywhere: where no format is known by a file's beginning, `in_logs` are looked for in
    all of it, and the strong patterns around the first and the last place of each.
    """

    name: str
    label: str
    strong: tuple[bytes, ...]
    weak: tuple[bytes, ...]
    looks_like: str
    suffixes: tuple[str, ...]
    version: int  # raise it when the tables change, so that cached imports are made anew
    source: str  # where the format is described
    supersedes: tuple[str, ...] = ()  # endings of files that need no reading beside one of these
    owns: tuple[str, ...] = ()  # endings that decide where no importer knows the content
    proven: str = ""  # of a format that nobody describes: what was compared, and what never seen
    in_logs: tuple[bytes, ...] = ()
    # Importers that give way where both know a text: their part is read, too, or only begins a log.
    covers: tuple[str, ...] = ()
    # Of a format whose recordings are folders, with more folders in them: those in a folder.
    find_folders: Callable[[Path], list[Path]] | None = None
    # Of a format whose recordings are folders: names of files that stand for theirs (globs).
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    """What an importer knows of a file as a whole: most of its row in `recordings`."""

    tool: str
    tool_version: str | None = None
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None  # only where the options say that identities are kept
    clock_offset_ns: int | None = None
    clock_uncertainty_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    has_stacks: bool | None = None
    has_shapes: bool | None = None
    # What a whole system did, or what a process's compiler logged: no rank of a job by itself.
    of_host: bool | None = None
    layers: tuple[str, ...] = ()  # of host_ops, where others of the same process may have more
    own: dict[str, Any] | None = None  # what only this format knows, and `opening` needs

    def facts(self) -> dict[str, Any]:
        """What is known, by name."""
        return {name: value for name, value in vars(self).items() if value not in (None, ())}


@dataclass
class Imported:
    """What an importer read: tables without `rank` and `recording_id`, and the file as a whole.

    `large` holds tables that are never in memory as a whole: they are made while they are written.
    `constants` are columns of those that have one value throughout, and are not in their rows.
    `whole` has some of those once more, to be made at once where they are small enough.
    """

    tables: dict[str, pl.DataFrame]
    recording: Recording
    quality: list[Quality] = field(default_factory=list)
    large: dict[str, pl.LazyFrame] = field(default_factory=dict)
    constants: dict[str, dict[str, int | str]] = field(default_factory=dict)
    whole: dict[str, Whole] = field(default_factory=dict)


class Whole(NamedTuple):
    """A table that can be made at once: how many rows it has, and what makes it."""

    rows: int
    make: Callable[[], pl.DataFrame]


@dataclass(frozen=True)
class Quality:
    """One thing that limits what may be concluded: a row of the `quality` table."""

    kind: str
    severity: str  # info, warning or error
    text: str
    count: int | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class ImportOptions:
    """What a person may choose when a recording is read."""

    keep_identity: bool = False  # keep host, user and device ids that the recording names
    clock_shift_ns: int = 0  # added to all times: the recording's host has another clock


@dataclass(frozen=True)
class Param:
    """A parameter of an analysis, as the command line takes it."""

    name: str
    default: Any
    doc: str
    unit: str | None = None


@dataclass(frozen=True)
class Analysis:
    """A question and the columns of its answer. Its module also has `run(run, **params)`."""

    name: str
    question: str
    columns: tuple[Column, ...]
    needs: tuple[str, ...] = ()  # tables without which there is no answer
    params: tuple[Param, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader of the numbers must know
    # A person is shown the rows with the most of this column first, a program all in their order.
    worst: str | None = None


@dataclass(frozen=True)
class Rule:
    """A problem that is looked for. Its module's docstring is the rule's page.

    `causes` are those of `sightline.timeline.causes` that it speaks for: no other rule has them.
    What a rule that `explains_lateness` finds on ranks that come late to collectives is taken into
    the finding of the rule that `finds_late_ranks`: it says why, and is no second problem. What a
    rule `explains` are rules whose findings about the same kernel are a symptom of its own: it says
    what to change, they say that something is. The causes come first. What a
    `general` rule finds says that something is, such as launching too slowly: a narrower finding
    beside it comes first, unless the general one gains so many times as much. Where the narrow one
    is `apart`, as the host waits there for others and launches no slower for it, the larger gain
    comes first. What is looked for `over_time` happens once, grows from step to step, or says what
    the whole is bound by: also of a long run all of it is asked. Rules of a `vendor` list what that
    vendor's own tool lists; they are asked on request only, since other rules say what it costs.
    """

    name: str
    title: str
    vendor: bool = False
    causes: tuple[str, ...] = ()
    finds_late_ranks: bool = False
    explains_lateness: bool = False
    explains: tuple[str, ...] = ()
    general: float = 1.0
    apart: bool = False
    over_time: bool = False


class Price(NamedTuple):
    """What a problem costs, or its end gains: an amount, its unit, and its share of the whole.

    Time is in ns, a device's memory in bytes (both integers), energy in joules. `pct` is 0 to 100,
    of what `sightline.diagnosis.price.share_of` names; None until that is known.
    """

    amount: float
    unit: str  # one of UNITS
    pct: float | None = None


UNITS = ("ns", "bytes", "j")


def make_price(amount: float | None, unit: str, pct: float | None = None) -> Price | None:
    """A price, or None where there is no amount."""
    return None if amount is None else Price(amount, unit, pct)


@dataclass(frozen=True)
class Finding:
    """One problem, with its cost and what to do about it, or the reason why it was not judged.

    `cost` is what is lost to it with everything that follows from it: of time, on all devices.
    `gain` is the most that can be had back if the problem is gone: of time, how much the window of
    the slowest device shrinks, by the run replayed without it where `method` says so. It is never
    more than the cost, and as a share neither: a run that is shorter is so on each of its devices,
    and that is lost to the problem there. Gains of several findings overlap and must not be added.
    A cost in time is a share of all devices' windows, a gain of the longest one; both are shares of
    the profiled time where a rule judges profiled kernels, of the memory that the rule names where
    they are bytes, of all that was measured where they are joules. A finding without a gain is a
    remark. What `states_limit` is not a problem but what the run as a whole is bound by: it comes
    first, unless something gains much.
    `where` may hold ranks, device_id, stream_id, op, kernel, source, time_ranges ([start, end] in
    ns); `rows` are evidence by id.
    """

    rule: str
    title: str
    severity: str  # critical, warning, info
    summary: str
    cost: Price | None = None
    gain: Price | None = None  # its share is set when findings are priced
    confidence: str = "medium"  # high, medium, low
    evidence: tuple[str, ...] = ()
    where: dict[str, Any] = field(default_factory=dict)
    fix: str | None = None
    verify: str | None = None
    abstained: bool = False
    reason: str | None = None  # why it abstained, and what to record instead
    cause: str | None = None  # why it happens, as far as the recording shows it
    method: str | None = None  # how the gain was found
    rows: tuple[dict[str, Any], ...] = ()  # evidence to look up: ids, times, sizes
    sources: tuple[str, ...] = ()  # where the threshold and the advice come from
    states_limit: bool = False
    is_asked: bool = False  # it answers what the recording was made for, and stands first
    direct_ns: int | None = None  # what is lost in the places where it is seen
    limits: tuple[str, ...] = ()  # what lowered the confidence, from the data-quality gate
    # Where it was asked of excerpts: between what the cost and the gain lie, in their units.
    cost_range: tuple[float, float] | None = None
    gain_range: tuple[float, float] | None = None

    @property
    def is_remark(self) -> bool:
        """Whether nothing is gained by fixing it alone."""
        return self.gain is None or not self.gain.amount

    @property
    def cost_pct(self) -> float | None:
        """The share of the whole that it costs, 0 to 100."""
        return None if self.cost is None else self.cost.pct

    @property
    def gain_pct(self) -> float | None:
        """The share of the whole that its end gains, 0 to 100."""
        return None if self.gain is None else self.gain.pct

    @property
    def cost_ns(self) -> int | None:
        """What it costs, where that is time."""
        return None if (ns := _take_amount(self.cost, "ns")) is None else int(ns)

    @property
    def gain_ns(self) -> int | None:
        """What its end gains, where that is time."""
        return None if (ns := _take_amount(self.gain, "ns")) is None else int(ns)

    def _repr_html_(self) -> str:
        html: str = registry.load("displays", "findings").write_html(self)
        return html

    def to_dict(self) -> dict[str, Any]:
        """As programs read it (`sightline findings --json`): a price as `cost_UNIT`, `cost_pct`.

        Each unit has its own fields, which are null in findings of another. The ranges are there
        where it was asked of excerpts: `cost_low`, `cost_high`, `gain_low` and `gain_high`.
        """
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        cost, gain = plain.pop("cost"), plain.pop("gain")
        ranges = {kind: plain.pop(f"{kind}_range") for kind in ("cost", "gain")}
        head = {name: plain.pop(name) for name in ("rule", "title", "severity", "summary")}
        return {
            **head,
            "cost_ns": self.cost_ns,
            "cost_pct": self.cost_pct,
            "gain_ns": self.gain_ns,
            **plain,
            "gain_pct": self.gain_pct,
            **{
                f"{kind}_{unit}": _take_amount(price, unit)
                for unit in UNITS
                if unit != "ns"
                for kind, price in (("cost", cost), ("gain", gain))
            },
            **{
                f"{kind}_{side}": value
                for kind, ends in ranges.items()
                if ends is not None
                for side, value in zip(("low", "high"), ends, strict=True)
            },
        }


def _take_amount(price: Price | None, unit: str) -> float | None:
    return price.amount if price is not None and price.unit == unit else None
