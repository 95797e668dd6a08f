"""Whether recordings that were given together are of one job; what is not is never merged."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.model.store import Member, Part
from sightline.core.model.tables import load_table
from sightline.core.units import format_long
from sightline.errors import InputError

# Ranks of one job are recorded at the same moment, as far as their hosts' clocks agree. NTP keeps
# those within milliseconds (RFC 5905, section 1); a clock without it drifts by up to 15 parts per
# million and more (same, section 7.2), 1.3 s a day: a minute is many weeks of that.
APART_NS = 60_000_000_000
# Times below this are no dates but counted from some start: 1 January 2001.
_EPOCH_NS = 978_307_200_000_000_000
_SHOWN = 4  # commands, and recordings in one


@dataclass(frozen=True)
class Given:
    """One thing that a person gave: a recording, a store or a run folder, with its members."""

    name: str
    members: Sequence[Member]
    _seen: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def has_timeline(self) -> bool:
        """Whether it says when something ran: profiled kernels and samples go with any timeline."""
        return any(self._rows("device_ops") or self._rows("host_ops"))

    def list_facts(self, name: str) -> list[Any]:
        """The known values of a fact."""
        return [f[name] for _, _, f in self.members if f.get(name) is not None]

    def list_values(self, table: str, column: str) -> set[str]:
        """The distinct texts of a column, of all members."""
        key = f"{table}.{column}"
        if key not in self._seen:
            self._seen[key] = set(self._read_values(table, column))
        found: set[str] = self._seen[key]
        return found

    @property
    def span(self) -> tuple[int, int]:
        """From when to when it was recorded, as its profiler says, else first to last event, ns."""
        if "span" not in self._seen:
            starts, ends = self.list_facts("start_ns"), self.list_facts("end_ns")
            table = "device_ops" if any(self._rows("device_ops")) else "host_ops"
            for frame in () if starts and ends else self._scan(table):
                first, last = frame.select(pl.min("start_ns"), pl.max("end_ns")).collect().row(0)
                starts.append(first or 0)
                ends.append(last or 0)
            self._seen["span"] = (min(starts, default=0), max(ends, default=0))
        found: tuple[int, int] = self._seen["span"]
        return found

    def _rows(self, table: str) -> list[int]:
        return [f["rows"].get(table) or 0 for _, _, f in self.members]

    def _read_values(self, table: str, column: str) -> Iterable[str]:
        for frame in self._scan(table):
            if table == "device_ops":
                frame = frame.filter(pl.col("kind") == "kernel")
            yield from frame.select(pl.col(column).drop_nulls().unique()).collect().to_series()

    def _scan(self, table: str) -> Iterator[pl.LazyFrame]:
        for number, (store, index, facts) in enumerate(self.members):
            part = Part(store, index, facts["rank"], 0, number, facts)
            frame = part.scan(load_table(table))
            if frame is not None:
                yield frame


def check_same_job(given: Sequence[Given]) -> None:
    """Raise InputError, which says what differs, unless all may be of one job."""
    jobs: list[list[Given]] = []
    first: str | None = None
    ranks: list[dict[int, Given]] = []
    for one in given:
        stated = _list_ranks(one)
        for job, known in zip(jobs, ranks, strict=True):
            # One for all: ten thousand ranks are a job too.
            told = _find_difference(job[0], one) or _find_capture(known, stated)
            if told is None:
                job.append(one)
                known.update(stated)
                break
            first = first or told
        else:
            jobs.append([one])
            ranks.append(stated)
    if first is None or len(jobs) < 2:
        return
    commands = [_write_command(job) for job in jobs[:_SHOWN]]
    if len(jobs) > _SHOWN:
        commands.append(f"  … and {len(jobs) - _SHOWN} more")
    if len(jobs) == 2 and max(map(len, jobs)) <= _SHOWN:
        before, after = (shlex.join(one.name for one in job) for job in jobs)
        commands += ["To compare them:", f"  sightline compare --before {before} --after {after}"]
    raise InputError(
        "the recordings belong to different jobs, or to several captures of one",
        why=first,
        hint="\n".join(["A report for each:", *commands, "To merge them anyway:  --same-job"]),
    )


def _list_ranks(one: Given) -> dict[int, Given]:
    """The ranks that recordings with a timeline state; one that only stands in order is none."""
    if not one.has_timeline:
        return {}
    return {
        f["own_rank"]: one
        for _, _, f in one.members
        if f.get("own_rank") is not None
        and f.get("rank_source") not in ("order", "host")
        and f.get("world_size") is not None
    }


def _find_capture(known: dict[int, Given], stated: dict[int, Given]) -> str | None:
    """What shows that a rank was recorded twice, one time after the other, as a clause."""
    for rank, one in stated.items():
        if (other := known.get(rank)) is None:
            continue
        early, late = sorted((one, other), key=lambda given: given.span)
        between = late.span[0] - early.span[1]
        if between > 0:
            return (
                f"rank {rank} was recorded twice: {early.name} ended {format_long(between)} "
                f"before {late.name} began"
            )
    return None


def is_same_job(a: Given, b: Given) -> bool:
    """Whether nothing shows that two are of different jobs."""
    return _find_difference(a, b) is None


def _write_command(job: Sequence[Given]) -> str:
    more = f" … ({len(job)} recordings)" if len(job) > _SHOWN else ""
    return f"  sightline {shlex.join(one.name for one in job[:_SHOWN])}{more}"


def _find_difference(a: Given, b: Given) -> str | None:
    """What shows that two are not of one job, as a clause; None where nothing does."""
    told = _compare_world_sizes(a, b) or _compare_devices(a, b)
    if told is None and a.has_timeline and b.has_timeline:
        told = _compare_times(a, b) or _compare_programs(a, b)
    return told


def _compare_world_sizes(a: Given, b: Given) -> str | None:
    sizes = [max(one.list_facts("world_size"), default=None) for one in (a, b)]
    if None in sizes or sizes[0] == sizes[1]:
        return None
    return f"{a.name} belongs to a job of {_count_ranks(sizes[0])}, {b.name} to one of {sizes[1]}"


def _count_ranks(count: Any) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def _compare_times(a: Given, b: Given) -> str | None:
    starts, ends = zip(a.span, b.span, strict=True)
    if min(*starts, *ends) < _EPOCH_NS:
        return None
    early, late = (0, 1) if ends[0] <= starts[1] else (1, 0)
    between = starts[late] - ends[early]
    if between < APART_NS:
        return None
    names = (a.name, b.name)
    return f"{names[early]} ended {format_long(between)} before {names[late]} began"


def _compare_devices(a: Given, b: Given) -> str | None:
    """GPUs by name: all profilers of NVIDIA's GPUs give CUDA's, others each their own."""
    vendors = [one.list_values("devices", "vendor") for one in (a, b)]
    comparable = set(a.list_facts("format")) & set(b.list_facts("format"))
    for column in ("name", "vendor"):
        names = [one.list_values("devices", column) for one in (a, b)]
        if column == "name" and not (comparable or vendors[0] == vendors[1] == {"nvidia"}):
            continue
        if all(names) and not names[0] & names[1]:
            first, second = (", ".join(sorted(n)) for n in names)
            return f"{a.name} was recorded on {first}, {b.name} on {second}"
    return None


def _compare_programs(a: Given, b: Given) -> str | None:
    """Programs by their kernels' names, unless both say that they belong to a job of that size."""
    if a.list_facts("world_size") and b.list_facts("world_size"):
        return None
    if not set(a.list_facts("format")) & set(b.list_facts("format")):
        return None
    names = [one.list_values("device_ops", "name") for one in (a, b)]
    if not all(names) or names[0] & names[1]:
        return None
    return f"they run different programs: no kernel of {a.name} occurs in {b.name}"
