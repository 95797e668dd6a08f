"""Caliper's records as stacks with weights: each region's own time, samples, kernels' times.

Which measurement is a time is known by its name (Caliper's services timer, cupti, rocprofiler,
sampler; aliases of its query language put operators and `#` in front).
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

from sightline.core.model.declare import Imported, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.errors import DamagedError
from sightline.formats._stacks import finish_import, note_bad_lines, read_text
from sightline.formats.hpc.caliper.records import Profile, Record, parse_json, parse_lines

# The quantity, behind the operators: weight and, where no unit is said, ns of one.
_QUANTITIES = {
    "time.duration.ns": ("cpu_time_ns", 1),
    "time.duration": ("cpu_time_ns", 1_000),  # usec until Caliper 2.9
    "time.inclusive.duration.ns": ("cpu_time_ns", 1),
    "time.inclusive.duration": ("cpu_time_ns", 1_000),
    "cupti.activity.duration": ("gpu_time_ns", 1),
    "rocm.activity.duration": ("gpu_time_ns", 1),
}
_UNITS = {"nsec": 1, "ns": 1, "usec": 10**3, "us": 10**3, "msec": 10**6, "sec": 10**9, "s": 10**9}
# Of what is written of a quantity over ranks, the sum is of all; then one rank's, then a mean.
_OPERATORS = ("sum", "", "total", "any", "avg", "max", "min")
_KERNELS = ("cupti.kernel.name", "rocm.kernel.name")
_ADDRESS = "cali.sampler.pc"
Path = tuple[Frame, ...]


def read_profile(source: Source) -> Imported:
    """Read the regions' times. Raises DamagedError where the file has none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    try:
        is_json = re.match(r'\s*\{\s*"', text)
        profile = parse_json(text) if is_json else parse_lines(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"its JSON is damaged ({error})"
        ) from error
    quality += note_bad_lines(profile.bad, "records of Caliper")
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    for metric, name, scale in choose_measurements(profile):
        spent: dict[Path, Decimal] = {}
        for record in profile.records:
            value = record.values.get(name)
            if value is not None:
                path = _list_frames(record)
                spent[path] = spent.get(path, Decimal(0)) + value * scale
        if "inclusive" in name:
            spent, negative = subtract_children(spent)
            if negative:
                said = "regions last shorter than what they contain: their own time is taken as 0"
                quality.append(Quality("negative_times", "warning", said, negative))
        weights += [
            (trie.add(path), metric, round(v), "exact") for path, v in spent.items() if v > 0
        ]
    if not weights:
        raise DamagedError(
            f"cannot read {source.given}",
            why="no record of it has a time",
            hint="Measure them:  CALI_CONFIG=runtime-report,output=NAME.cali PROGRAM",
        )
    return finish_import(source, trie, weights, quality, "Caliper")


def choose_measurements(profile: Profile) -> list[tuple[str, str, int]]:
    """(weight, the measurement's name, what one of it is in ns): one for each weight."""
    found: dict[str, tuple[tuple[bool, int, str], str, int]] = {}
    names = {name for record in profile.records for name in record.values}
    for name in sorted(names):
        *operators, quantity = name.split("#")
        if quantity not in _QUANTITIES or not set(operators) <= {*_OPERATORS, "inclusive"}:
            continue
        weight, nanoseconds = _QUANTITIES[quantity]
        scale = _UNITS.get(profile.units.get(name, ""), nanoseconds)
        first = next((o for o in operators if o != "inclusive"), "")
        rank = ("inclusive" in name, _OPERATORS.index(first), name)
        if weight not in found or rank < found[weight][0]:
            found[weight] = (rank, name, scale)
    chosen = [(weight, name, scale) for weight, (_, name, scale) in found.items()]
    if any(_ADDRESS in name for record in profile.records for name in record.about):
        chosen += [("samples", name, 1) for name in ("count", "aggregate.count") if name in names][
            :1
        ]
    return chosen


def subtract_children(spent: dict[Path, Decimal]) -> tuple[dict[Path, Decimal], int]:
    """Each path's own time from inclusive ones, and how many are negative by more than rounding.

    A time is printed to 1 µs (six decimals of a second): each part of a difference is 0.5 µs off.
    """
    own, parts = dict(spent), Counter[Path]()
    for path, value in spent.items():
        above = next((path[:n] for n in range(len(path) - 1, 0, -1) if path[:n] in own), None)
        if above is not None:
            own[above] -= value
            parts[above] += 1
    negative = sum(1 for path, value in own.items() if value < -500 * (parts[path] + 1))
    return own, negative


def _list_frames(record: Record) -> Path:
    """The regions, then the kernel or the sampled line; one frame where nothing is known."""
    frames = [Frame(_name_layer(name), label) for name, label in record.path]
    kernel = next((record.about[name] for name in _KERNELS if name in record.about), None)
    if kernel:
        frames.append(Frame("kernel", kernel))
    module = record.about.get(f"module#{_ADDRESS}")
    file, _, line = record.about.get(f"sourceloc#{_ADDRESS}", "").rpartition(":")
    is_known = file not in ("", "UNKNOWN") and line.isdecimal() and len(line) < 10
    function = record.about.get(f"source.function#{_ADDRESS}")
    if function and frames[-1:] != [Frame("native", function)]:
        frames.append(Frame("native", function))
    if frames:
        frames[-1] = frames[-1]._replace(module=module)
    if frames and is_known:
        frames[-1] = frames[-1]._replace(file=file, line=int(line))
    return tuple(frames) or (Frame("phase", "[outside of all regions]"),)


def _name_layer(attribute: str) -> str:
    """The layer of a region, by the attribute that marks it."""
    if attribute in _KERNELS:
        return "kernel"
    if attribute in ("function", "mpi.function") or "source.function" in attribute:
        return "native"
    return "phase"
