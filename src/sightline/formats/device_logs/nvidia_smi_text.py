"""`nvidia-smi -q` as text, whole or by -d, once or again and again (-l): lines of name and value.

Groups are told by their indentation; a value is named by its groups where it has no name of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.device_logs._clock_reasons import combine_reasons, is_reason
from sightline.formats.device_logs._lost import (
    Lost,
    describe_fabric,
    describe_failure,
    is_failure,
    list_states,
    note_missing_gpus,
    report_lost,
)

IMPORTER = Importer(
    name="nvidia_smi_text",
    label="nvidia-smi -q (text)",
    strong=(rb"(?:\A|\n)=+NVSMI LOG=+\r?\n",),
    weak=(),
    looks_like="the line ==============NVSMI LOG==============",
    suffixes=(".txt", ".log", ".out"),
    version=8,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_BANNER = re.compile(r"^=+NVSMI LOG=+[ \r]*$", re.MULTILINE)
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_ATTACHED = re.compile(r"^Attached GPUs {1,80}: (\d{1,4})\s*$", re.MULTILINE)
_TIMESTAMP = re.compile(r"^Timestamp {1,80}: (.*)$", re.MULTILINE)
# Of which only the last name counts, as in -q -x.
_FLAT = {"Power Readings", "GPU Power Readings"}
_REASONS = {"Clocks Event Reasons", "Clocks Throttle Reasons"}
# What says who a device is and what it could do, not what it does.
_NO_SAMPLES = {
    "Minor Number", "Serial Number", "GPU UUID", "VBIOS Version", "Board ID", "GPU Part Number",
    "Module ID", "Bus", "Device", "Domain", "Device Id", "Bus Id", "Sub System Id",
    "Base Classcode", "Sub Classcode", "Index", "GPU Instance ID", "Compute Instance ID",
    "GPU instance ID", "Compute instance ID", "Process ID", "Product Name",
}  # fmt: skip
_NO_GROUPS = {"Supported Clocks", "Accounted Processes"}
_MOST_LEVELS = 16
_VALUE_ALONE = re.compile(r"^ {0,3}-?\d")  # groups of a GPU are indented by four
_VALUES_AT = 30  # the least column of the colon before values: 38 in what we have, 49 since 545


@dataclass
class _Line:
    groups: tuple[str, ...]
    name: str
    value: str


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all logs. Raises DamagedError where none has a number."""
    quality: list[Quality] = []
    samples, times, missing, bad = Samples(), 0, 0, 0
    lost: list[Lost] = []
    text = read_text(source, quality)
    logs = _BANNER.split(text)[1:]
    # The line between two logs may be gone: each has its time once.
    bad += max(len(_TIMESTAMP.findall(text)) - len(logs), 0)
    for number, log in enumerate(logs):
        told = _TIMESTAMP.search(log)
        at = read_time(told[1], "%a %b %d %H:%M:%S %Y") if told else None
        times += at is not None
        gpus = _split_gpus(log)
        # A damaged first line of a GPU takes all that is below it to the one before.
        attached = _ATTACHED.search(log)
        missing += max(int(attached[1]) - len(gpus), 0) if attached else not gpus
        for place, (bus, lines) in enumerate(gpus):
            moment = number * 10**9 if at is None else at
            bad += sum(map(_is_damaged, lines)) + _count_empty_groups(lines)
            bad += _count_lost_reasons(lines) + _count_lost_memory(lines)
            device, values = _read_gpu(bus, place, lines, moment, samples)
            if (failure := describe_failure(values)) is not None:
                lost.append(Lost(moment, device, *failure))
            if (fabric := describe_fabric(values)) is not None:
                lost.append(Lost(moment, device, "fabric-error", fabric))
            lost += [Lost(moment, device, *state) for state in list_states(values)]
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no GPU in it has a reading")
    quality.append(note_zone() if times == len(logs) else note_no_times(1))
    quality += samples.note_gaps()
    quality += [*note_bad_lines(bad, "name and value"), *note_missing_gpus(missing)]
    events, notes = report_lost(lost)
    tables = samples.tables("nvidia") | events
    return Imported(tables, Recording("nvidia-smi"), quality + notes)


def _split_gpus(log: str) -> list[tuple[str, list[str]]]:
    """Bus id and lines of each GPU."""
    found: list[tuple[str, list[str]]] = []
    for line in log.splitlines():
        gpu = _GPU.match(line)
        if gpu:
            found.append((gpu[1], []))
        elif found:
            found[-1][1].append(line)
    return found


def _is_damaged(line: str) -> bool:
    """Whether a line is neither a group, nor a name and its value, as nvidia-smi aligns them."""
    name, colon, value = line.partition(" : ")
    if not colon:  # the value of a name is cut off, or the line is a group's
        is_group = line.isascii() and ": " not in line and not _VALUE_ALONE.match(line)
        return not is_group or line.endswith(("  ", " :")) or line.isspace() or "  :" in line
    # Values stand in one column, behind blanks; a second one in a line is another line's. Where
    # there is no value, nvidia-smi writes N/A.
    return len(name) < _VALUES_AT or "   " in value.strip() or not value.strip()


def _count_empty_groups(lines: list[str]) -> int:
    """How many names stand alone that are not group's: nothing is below them."""
    told = [line for line in lines if line.strip()]
    depths = [len(line) - len(line.lstrip(" ")) for line in told] + [0]
    return sum(
        below <= depth and ":" not in line
        for line, depth, below in zip(told, depths, depths[1:], strict=False)
    )


def _count_lost_reasons(lines: list[str]) -> int:
    """How many reasons for a clock are of no group of reasons, whose name is damaged."""
    told = list(_list_lines(lines))
    states = [one for one in told if one.value in ("Active", "Not Active") and one.groups]
    return sum(is_reason(one.name) and not _REASONS & {*one.groups} for one in states)


def _count_lost_memory(lines: list[str]) -> int:
    """How many processes do not say what memory they use, as each does."""
    names = [one.name for one in _list_lines(lines) if "Processes" in one.groups]
    return max(names.count("Process ID") - names.count("Used GPU Memory"), 0)


def _list_lines(lines: list[str]) -> Iterator[_Line]:
    """Names with a value, and the groups that they are in."""
    groups: list[tuple[int, str]] = []
    for line in lines:
        name, colon, value = line.partition(" : ")
        depth, name = len(name) - len(name.lstrip(" ")), name.strip().removesuffix(":").rstrip()
        if not name:
            continue
        while groups and groups[-1][0] >= depth:
            groups.pop()
        if colon:
            yield _Line(tuple(name for _, name in groups), name, value.strip())
        # A name with a value may have others below it, as processes and slowdowns have.
        if len(groups) < _MOST_LEVELS:
            groups.append((depth, name))


def _read_gpu(
    bus: str, place: int, lines: list[str], at: int, samples: Samples
) -> tuple[int, dict[str, str]]:
    """Its number, and what it was asked for, by name."""
    told = list(_list_lines(lines))
    own = {line.name: line.value for line in told if not line.groups}
    minor = own.get("Minor Number", "")
    number = int(minor) if minor.isdecimal() and len(minor) < 5 else place
    device = samples.number_device(bus, number)
    if "Product Name" in own and not is_failure(own["Product Name"]):
        samples.names[device] = own["Product Name"]
    reasons = [(line.name, line.value) for line in told if _REASONS & {*line.groups}]
    bits = combine_reasons(reasons)
    if bits is not None:
        samples.add("clocks_event_reasons.active", bits, at, device)
    ids: dict[str, str] = {}
    for line in told:
        groups = [group for group in line.groups if group not in _FLAT]
        name = line.name.lower()
        if name == "gpu instance id":  # of the next instance, or process
            ids = {}
        if name in ("gpu instance id", "compute instance id", "process id"):
            ids[name] = line.value
        if line.name in _NO_SAMPLES or _NO_GROUPS & {*groups}:
            continue
        if "Processes" in groups:
            if line.name == "Used GPU Memory":
                who = f"process {ids.get('process id', '?')}"
                samples.add("process memory", line.value, at, device, who, "bytes")
            continue
        source = None
        if "MIG Device" in groups or "MIG Devices" in groups:
            groups = [group for group in groups if not group.startswith("MIG Device")]
            groups = [group for group in groups if group != "Index"]
            known = [
                ids[name] for name in ("gpu instance id", "compute instance id") if name in ids
            ]
            source = f"MIG {'/'.join(known)}".rstrip()
        samples.add(".".join([*groups, line.name]), line.value, at, device, source)
    return device, {".".join([*line.groups, line.name]): line.value for line in told}
