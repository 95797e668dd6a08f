"""The output of gpu_burn: what each GPU of a stress test reached, how hot it got, and its errors.

Between two summaries, which have a time, lines are written over each other with carriage returns;
what stands last before a summary is its reading.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="gpu_burn",
    label="gpu_burn",
    strong=(rb"[\r\n]\d[\d.]*%  proc'd: \d",),
    weak=(),
    looks_like="lines such as 50.0%  proc'd: 2261 (7150 Gflop/s)   errors: 0   temps: 38 C",
    suffixes=(".log", ".txt"),
    version=5,
    source="https://github.com/wilicc/gpu-burn",
)

_NAME = re.compile(r"^GPU (\d{1,3}): (.{1,200}?) \(UUID: ")
_READING = re.compile(r"[\d.]+%  proc'd: (.*?) errors: (.*?) temps: (.*)$")
_SUMMARY = re.compile(r"^\s*Summary at:\s+(\S+ \S+ +\d+ [\d:]+) (?:\S+ )?(\d{4})\s*$")
_RATE = re.compile(r"\(([\d.]+) Gflop/s\)")
_COUNT = re.compile(r"^\s*(\d+)")
_LOOKS = re.compile(
    r"proc'd:|errors:|temps:|Summary at:|Gflop/s"
    r"|^\tS[umaryt ]*$"
    r"|^\d+\.(?:\d*%?)?\s*$"
    r"|^\s*[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8} (?:\S+ )?\d{4}\s*$"
)  # of a line that is damaged
_HEAT = re.compile(r"(\d+) C")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all summaries. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    samples = Samples()
    last: re.Match[str] | None = None
    timed, rounds, bad = False, 0, 0
    # Lines are written over each other: splitlines cuts at carriage returns, too.
    text = read_text(source, quality)
    if text.endswith("\r"):  # which begins each line of progress
        said = "the log ends where a line of progress begins: what followed is missing"
        quality.append(Quality("open_end", "info", said))
    bad += _count_unsummed(text.split("\n"))
    for line in text.splitlines():
        name = _NAME.match(line)
        if name is not None:
            samples.names[int(name[1])] = name[2]
        reading = _READING.search(line)
        last = reading or last
        summary = _SUMMARY.match(line)
        if summary is None or last is None:
            is_lost = summary is None and reading is None and bool(_LOOKS.search(line))
            is_lost = is_lost or ("Summary at" in line and summary is None)
            bad += reading is not None and _count_values(reading) is None
            bad += is_lost or (summary is not None and last is None)
            continue
        at = read_time(f"{summary[1]} {summary[2]}", "%a %b %d %H:%M:%S %Y")
        timed = timed or at is not None
        rounds += 1
        _add(samples, last, at if at is not None else rounds * 10**9)
        last = None
    if last is not None:
        _add(samples, last, (rounds + 1) * 10**9) if not timed else None
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it holds no summary")
    quality += [*note_bad_lines(bad, "reading of gpu_burn"), *samples.note_gaps()]
    quality.append(note_zone() if timed else note_no_times(1))
    return Imported(samples.tables("nvidia"), Recording("gpu_burn"), quality)


def _count_unsummed(lines: list[str]) -> int:
    """How many readings end their line without a summary below, though it is not the last one.

    A reading is written over by the next, unless a summary or the end of the test follows. In a
    log that somebody copied the next one may stand below.
    """
    return sum(
        bool(_READING.search(line))
        and not (below.startswith(("\tSummary", "Killing")) or _READING.search(below))
        for line, below in pairwise(lines)
    )


def _count_values(reading: re.Match[str]) -> int | None:
    """How many GPUs a reading is of; None where it lacks a value of one."""
    rates, errors, heats = (part.split(" - ") for part in reading.groups())
    are_whole = (
        len(rates) == len(errors) == len(heats)
        and all(map(_RATE.search, rates))
        and all(map(_COUNT.match, errors))
        and all(_HEAT.search(heat) or "--" in heat for heat in heats)
    )
    return len(rates) if are_whole else None


def _add(samples: Samples, reading: re.Match[str], at: int) -> None:
    """What all GPUs of a reading reached; a rate of 0 is none yet."""
    rates, errors, heats = (part.split(" - ") for part in reading.groups())
    for device, text in enumerate(rates):
        rate = _RATE.search(text)
        if rate is not None and float(rate[1]) > 0:
            samples.add("achieved", float(rate[1]), at, device, None, "Gflop/s")
    for device, text in enumerate(errors):
        count = _COUNT.match(text)
        if count is not None:
            samples.add("errors", float(count[1]), at, device)
    for device, text in enumerate(heats):
        heat = _HEAT.search(text)
        if heat is not None:
            samples.add("temperature", float(heat[1]), at, device, None, "C")
