"""What shows that two recordings are of one job, and what shows that they are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sightline.core.units import format_long, format_several
from sightline.opening.given import Given
from sightline.opening.ranks import RANK_IN_NAME

# Ranks of one job are recorded at the same moment, as far as their hosts' clocks agree. NTP keeps
# those within milliseconds (RFC 5905, section 1); a clock without it drifts by up to 15 parts per
# million and more (same, section 7.2), 1.3 s a day: a minute is many weeks of that.
APART_NS = 60_000_000_000
# Ranks of one program launch the same kernels: all of them in the eight of astra-sim's, and in any
# pair of captures of one program of the collection; 1 to 82 % between programs that differ.
SAME_LAUNCHES = 0.9


def find_difference(a: Given, b: Given) -> str | None:
    """What shows that two are not of one job, as a clause; None where nothing does."""
    clause = _compare_world_sizes(a, b) or _compare_devices(a, b)
    if clause is None and a.has_timeline and b.has_timeline:
        clause = _compare_times(a, b) or _compare_programs(a, b)
    return clause


def has_evidence(a: Given, b: Given) -> bool:
    """Whether something shows that two are of one job: ranks, the time, the program."""
    if _state_ranks(a, b) or _are_hosts(a, b):
        return True
    if not (a.has_timeline and b.has_timeline):
        return bool(a.launches.keys() & b.launches.keys()) and not a.formats & b.formats
    if _complete_each_other(a, b):
        return True
    if a.is_dated and b.is_dated:
        return _overlap(a, b)
    if a.formats & b.formats and not _overlap(a, b):
        return False
    return _is_same_program(a, b)


def _state_ranks(a: Given, b: Given) -> bool:
    """Whether both say their ranks: each another, or two tools of the same one.

    Where only names say so, they must be those of a series.
    """
    if not a.ranks or not b.ranks:
        return False
    if a.ranks & b.ranks:
        return a.ranks == b.ranks and a.folder == b.folder and not a.formats & b.formats
    sources = {*a.list_facts("rank_source"), *b.list_facts("rank_source")}
    return "file name" not in sources or _blank_numbers(a) == _blank_numbers(b)


def _are_hosts(a: Given, b: Given) -> bool:
    """Whether both are of whole systems at one time, as far as hosts' clocks agree."""
    systems = all(one.list_facts("of_host") == [True] * len(one.members) for one in (a, b))
    return systems and a.is_dated == b.is_dated and _measure_gap(a, b) < APART_NS


def _blank_numbers(one: Given) -> tuple[str, str]:
    """Its folder without the number of a rank, and its name without any number."""
    own = one.folder.name
    for number in RANK_IN_NAME.findall(own):
        own = own.replace(number, "*")
    return str(one.folder.parent / own), re.sub(r"\d+", "*", Path(one.name).name)


def _complete_each_other(a: Given, b: Given) -> bool:
    """Whether one has the device's work and the other calls alone, side by side in one folder.

    Kernels whose calls lie in a file of their own, or ranks and a process that is none of them, as
    a server's front end.
    """
    device, host = (a, b) if a.has("device_ops") else (b, a)
    if not device.has("device_ops") or host.has("device_ops") or host.ranks:
        return False
    lacks = bool(device.ranks) or not device.has("host_ops")
    return (
        lacks
        and a.folder == b.folder
        and a.is_dated == b.is_dated
        and _measure_gap(a, b) < APART_NS
    )


def _measure_gap(a: Given, b: Given) -> int:
    """The time from the end of the first to the start of the second, ns; below 0 they overlap."""
    early, late = sorted((a, b), key=lambda one: one.span)
    return late.span[0] - early.span[1]


def _overlap(a: Given, b: Given) -> bool:
    return _measure_gap(a, b) < 0


def _is_same_program(a: Given, b: Given) -> bool:
    """Whether both ran the same things, as far as their names tell."""
    shared = a.launches.keys() & b.launches.keys()
    return all(
        sum(one.launches[name] for name in shared) >= SAME_LAUNCHES * sum(one.launches.values()) > 0
        for one in (a, b)
    )


def _compare_world_sizes(a: Given, b: Given) -> str | None:
    sizes = [max(one.list_facts("world_size"), default=None) for one in (a, b)]
    if None in sizes or sizes[0] == sizes[1]:
        return None
    return f"{a.name} belongs to a job of {_count_ranks(sizes[0])}, {b.name} to one of {sizes[1]}"


def _count_ranks(count: Any) -> str:
    return format_several(count, "rank")


def _compare_times(a: Given, b: Given) -> str | None:
    """Two captures lie one after the other; ranks do so, too, where their clocks are apart."""
    if not (a.is_dated and b.is_dated):
        return None
    between = _measure_gap(a, b)
    may_lag = (a.ranks and b.ranks and not a.ranks & b.ranks) or _complete_each_other(a, b)
    if between < (APART_NS if may_lag else 0):
        return None
    early, late = sorted((a, b), key=lambda one: one.span)
    return f"{early.name} ended {format_long(between)} before {late.name} began"


def _compare_devices(a: Given, b: Given) -> str | None:
    """GPUs by name: all profilers of NVIDIA's GPUs give CUDA's, others each their own."""
    vendors = [one.list_values("devices", "vendor") for one in (a, b)]
    comparable = a.formats & b.formats
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
    if not a.formats & b.formats:
        return None
    names = [one.list_values("device_ops", "name") for one in (a, b)]
    if not all(names) or names[0] & names[1]:
        return None
    return f"they run different programs: no kernel of {a.name} occurs in {b.name}"
