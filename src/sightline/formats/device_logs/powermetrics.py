"""The log of macOS' powermetrics: power, clocks and idle time of CPUs and GPU, sample by sample.

Each sample has a heading with its end and its length; the values below it are means of that time.
The heading's time is of the second; samples within one second follow each other by their lengths.
"""

from __future__ import annotations

import re
from collections import Counter

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_cut, is_nearly

IMPORTER = Importer(
    name="powermetrics",
    label="macOS powermetrics",
    strong=(rb"(?:\A|\n)\*\*\* Sampled system activity \([^)\n]{20,40}\) \([\d.]+ms elapsed\)",),
    weak=(),
    looks_like="*** Sampled system activity (Fri Nov 10 12:37:08 2023 +0100) (104.51ms elapsed)",
    suffixes=(".txt", ".log"),
    version=5,
    source="powermetrics(1)",
)

_HEAD = re.compile(r"^\*\*\* Sampled system activity \(([^)]{20,40})\) \(([\d.]{1,15})ms elapsed\)")
_POWER = re.compile(r"^([^:]{1,40}) Power: ([\d.]{1,15}) mW$")
_SHARE = re.compile(r"^([^:]{1,40}?) (?:HW )?(active|idle) residency: +([\d.]{1,15})%")
_CLOCK = re.compile(r"^([^:]{1,40}?) (?:HW active )?frequency: ([\d.]{1,15}) MHz$")
# What a line of a value looks like though it cannot be read, or is cut off.
_LOOKS = re.compile(r"Power|mW\b|residency|frequency|MHz|\*\*\*|elapsed")
_LOOKS_HEAD = re.compile(r"\*\*\* Sampled|ms elapsed\)")
# Values of it that are not read: shares by clock, sums, and which part a heading is of.
_OTHERS = re.compile(
    r"^\*\*\*\* .* \*\*\*\*$|\brequested|^Combined Power|\bSW |idle ratio|^Machine model"
)
# What lines of values begin with, for those that are cut off before they look like one.
_VALUES = ("Power:", "HW active frequency:", "HW active residency:", "frequency:",
           "idle residency:", "active residency:")  # fmt: skip
_PARTS = ("GPU", "CPU", "CPU 0", "ANE", "DRAM", "Package", "E-Cluster", "P-Cluster", "P0-Cluster")
_PART = re.compile(r"(?:GPU|CPU|ANE|DRAM|Package|[A-Z]\d*-Cluster)(?: \d+)?")
_HEADS = [f"{part} {value}" for part in _PARTS for value in _VALUES]
# A value, and the next line behind it.
_JOINED = re.compile(r"(?:%|mW|MHz|\*\*\*)(?:GPU|CPU|ANE|DRAM|Package|[EP]\d?-Cluster) ")
_FORM = "%a %b %d %H:%M:%S %Y %z"
_GPU = 0  # Apple's chips have one


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where none has a value."""
    quality: list[Quality] = []
    samples = Samples()
    begin: int | None = None
    end: int | None = None
    bad = 0
    others: list[str] = []
    series: list[Counter[str]] = []  # of each sample, what it has values of
    for line in read_text(source, quality).splitlines():
        head = _HEAD.match(line)
        if head is not None:
            bad += bool(_JOINED.search(line))
            told = read_time(head[1], _FORM)
            length = round(float(head[2]) * 10**6) if _is_number(head[2]) else 0
            # The next sample of the same second ends one length later.
            later = end + length if end is not None else None
            if told is None or (later is not None and later - told < 10**9):
                end = later if later is not None else told
            else:
                end = told
            begin = None if end is None else end - length
            series.append(Counter())
            bad += told is None or not _is_number(head[2])
        elif end is None:
            bad += _is_value(line.strip()) or bool(_LOOKS_HEAD.search(line))
        elif _JOINED.search(line) or not _add(samples, line.strip(), begin, end):
            bad += 1
        elif line and ":" not in line:
            others.append(line)
        else:
            bad += _is_damaged_part(line)
            series[-1].update(_name_values(line))
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no sample of it has a value")
    samples.names[_GPU] = "Apple GPU"
    bad += count_cut(others, _HEADS, least=1) + _count_missing(series)
    quality += [*note_bad_lines(bad, "value of powermetrics"), *samples.note_gaps()]
    return Imported(samples.tables("apple"), Recording("powermetrics"), quality)


def _name_values(line: str) -> list[str]:
    """What stands before a line's value, in which figures are of a part's name."""
    return [line.partition(":")[0]] if _is_value(line.strip()) else []


def _count_missing(series: list[Counter[str]]) -> int:
    """How many values a sample lacks that all others have: powermetrics prints the same of each."""
    times: Counter[tuple[str, int]] = Counter()  # of each value, and each time that it is said
    for own in series:
        times.update((name, nth) for name, count in own.items() for nth in range(count))
    return sum(count == len(series) - 1 for count in times.values()) if len(series) > 1 else 0


def _is_damaged_part(line: str) -> bool:
    """Whether a value is of a part whose name is nearly a known one."""
    found = _POWER.match(line) or _SHARE.match(line) or _CLOCK.match(line)
    part = found[1].removesuffix(" HW") if found else ""
    if not part or _PART.fullmatch(part):
        return False
    return any(is_nearly(part, known) for known in _PARTS)


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text != "."


def _is_value(line: str) -> bool:
    """Whether it is a value of a sample, whose heading is missing where it stands first."""
    return any(form.match(line) for form in (_POWER, _SHARE, _CLOCK))


def _add(samples: Samples, line: str, begin: int | None, end: int) -> bool:
    """A value of the sample that ends then: of the GPU, or of a part of the chip by its name.

    False for a line that looks like one, and cannot be read.
    """
    power, share, clock = _POWER.match(line), _SHARE.match(line), _CLOCK.match(line)
    if power is not None and _is_number(power[2]):
        device, part = _place(power[1])
        samples.add("power", float(power[2]) / 1000, end, device, part, "W", begin)
    elif share is not None and _is_number(share[3]):
        device, part = _place(share[1])
        busy = float(share[3]) if share[2] == "active" else 100 - float(share[3])
        if share[2] == "idle" or device is not None:
            metric = "GPU utilization" if device is not None else "CPU utilization"
            samples.add(metric, busy, end, device, part, "%", begin)
    elif clock is not None and _is_number(clock[2]):
        device, part = _place(clock[1])
        metric = "graphics clock" if device is not None else "clock"
        samples.add(metric, float(clock[2]), end, device, part, "MHz", begin)
    else:
        return not _LOOKS.search(line) or bool(_OTHERS.search(line))
    return True


def _place(name: str) -> tuple[int | None, str | None]:
    return (_GPU, None) if name == "GPU" else (None, name)
