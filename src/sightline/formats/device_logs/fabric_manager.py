"""The log of NVIDIA's Fabric Manager (or IMEX): errors of NVSwitches and of links between GPUs.

Lines begin with `[Jul 23 2024 07:53:55] [ERROR] [tid 841]`. Warnings and errors are events; an
error of an NVSwitch carries its SXID and the switch's PCI address. Indented lines below one, and
names with a value, say more of it.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.errors import DamagedError
from sightline.formats._samples import note_no_date, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text

_STAMP = rb"\[[A-Z][a-z]{2} {1,2}\d{1,2} \d{4} \d\d:\d\d:\d\d\] "
IMPORTER = Importer(
    name="fabric_manager",
    label="NVIDIA Fabric Manager or IMEX log",
    strong=(
        rb"(?:\A|\n)(?:Fabric Manager|IMEX) Log initializing at: ",
        rb"(?:\A|\n)" + _STAMP + rb"\[(?:INFO|NOTICE|WARNING|ERROR|CRITICAL|DEBUG)\] \[tid \d+\] ",
        rb"(?:\A|\n)[^\n]{0,80}\bnv(?:idia)?-fabricmanager(?:-start\.sh)?\[\d+\]: ",
    ),
    weak=(),
    looks_like="lines such as [Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch …",
    suffixes=(".log", ".txt"),
    version=3,
    source="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
)

_LINE = re.compile(
    r"^\[([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)\] \[([A-Z]+)\] \[tid \d+\] (.*)$"
)
# The same service's words in the system's journal, which has no level: what fails is an error.
_JOURNAL = re.compile(
    r"^(?:([A-Z][a-z]{2}) {1,2}(\d{1,2}) |[^ ]+ [^ ]+ )(\d\d:\d\d:\d\d) .*?"
    r"\bnv(?:idia)?-fabricmanager(?:-start\.sh)?\[\d+\]: (.*)$"
)
_FAILS = re.compile(r"(?i)\bfail|\berror|\babort|\bfatal")
_MORE = re.compile(r"^\s*(\w{1,40})\s*: (\S.{0,80}?)\s*$")
# A line that is damaged or cut off has one of these still.
_LOOKS = re.compile(r"^\[|\[tid|\[(?:INFO|NOTICE|WARN|ERR|CRIT|DEBUG)|NVSwitch|fabricmanager\[")
_WITHIN = re.compile(r"\] \[[A-Z]{1,20}\] \[tid \d")  # behind more than a bracket
_SWITCH = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6})\b.*?pci bus id ([0-9A-Fa-f:.]+)"
)
_WRONG = {"WARNING": "fabric-warning", "ERROR": "fabric-error", "CRITICAL": "fabric-error"}
_CALM = ("INFO", "NOTICE", "DEBUG")
_MOST_TEXT, _MOST_MORE = 300, 12  # of a line that is kept, of lines that say more of it


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines. Raises DamagedError where none has a level."""
    quality: list[Quality] = []
    events: list[dict[str, object]] = []
    levels: dict[str, int] = {}
    bad = 0
    more = 0  # lines that may still follow the event before
    for line in read_text(source, quality).splitlines():
        if (entry := _JOURNAL.match(line)) is not None:
            levels["JOURNAL"], more = levels.get("JOURNAL", 0) + 1, 0
            if _FAILS.search(entry[4]):
                day = f"1970 {entry[1] or 'Jan'} {entry[2] or 1} {entry[3]}"
                moment = read_time(day, "%Y %b %d %H:%M:%S") or 0
                events.append(
                    {"time_ns": moment, "device_id": None, **_describe(_WRONG["ERROR"], entry[4])}
                )
            continue
        if (found := _LINE.match(line)) is None:
            within = _WITHIN.search(line)
            bad += within is not None and bool(line[: within.start()].strip(" \t["))
            if more and (told := _MORE.match(line)) is not None:
                events[-1]["text"] = f"{events[-1]['text']}, {told[1]} {told[2]}"[:_MOST_TEXT]
                more -= 1
            else:
                bad += bool(_LOOKS.search(line))
            continue
        month, day, year, clock, level, text = found.groups()
        levels[level] = levels.get(level, 0) + 1
        at = read_time(f"{year} {month} {day} {clock}", "%Y %b %d %H:%M:%S")
        more = 0
        bad += at is None or (level not in _WRONG and level not in _CALM)
        if level in _WRONG and at is not None:
            events.append({"time_ns": at, "device_id": None, **_describe(_WRONG[level], text)})
            more = _MOST_MORE
    if not levels:
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a level")
    quality.append(note_no_date() if "JOURNAL" in levels else note_zone())
    quality += note_bad_lines(bad, "line of a Fabric Manager's log")
    if not events:
        calm = f"{format_several(sum(levels.values()), 'line')}, none of them a warning or an error"
        quality.append(Quality("no_errors", "info", calm))
    fatal = [event for event in events if event["event"] == "sxid-fatal"]
    if fatal:
        quality.append(
            Quality(
                "switch_failed",
                "error",
                f"an NVSwitch failed: {fatal[0]['source']}: {fatal[0]['text']}",
                None,
                "Its GPUs lost their links: drain the machine, reset all GPUs and switches.",
            )
        )
    schema = {"time_ns": pl.Int64, "device_id": pl.Int64, "event": pl.String,
              "source": pl.String, "text": pl.String}  # fmt: skip
    tables = {"device_events": pl.DataFrame(events, schema=schema)}
    return Imported(tables, Recording("Fabric Manager", of_host=True), quality)


def _describe(event: str, text: str) -> dict[str, str | None]:
    """What happened, and to which switch."""
    shown = make_printable(text).strip()[:_MOST_TEXT]
    if (switch := _SWITCH.search(text)) is None:
        return {"event": event, "source": None, "text": shown}
    kind = "sxid-fatal" if switch[1] == "fatal" else "sxid"
    return {"event": kind, "source": f"nvswitch {switch[3]}", "text": f"SXID {switch[2]}: {shown}"}
