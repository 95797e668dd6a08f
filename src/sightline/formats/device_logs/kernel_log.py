"""A Linux kernel log (dmesg, journalctl -k, kern.log): what NVIDIA's driver says of GPUs.

Each XID is an event: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.`; so
are GPUs that are lost and links that fail (SXid of NVSwitch). The lines of others are not damage.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import make_printable
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._samples import note_no_date
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_cut

IMPORTER = Importer(
    name="kernel_log",
    label="Linux kernel log (XIDs)",
    strong=(rb"(?:\A|\n)[^\n]{0,200}\bNVRM: (?:Xid|GPU at|GPU 0000|The NVIDIA)",
            rb"(?:\A|\n)[^\n]{0,200}\bnvidia-nvswitch\d*: SXid"),
    weak=(),
    looks_like="lines with NVRM: Xid (PCI:0000:3b:00): 79, …",
    suffixes=(".log", ".txt", ".out"),
    version=5,
    source="https://docs.nvidia.com/deploy/xid-errors/",
)  # fmt: skip

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d{1,4}),?\s*(.*)")
_SXID = re.compile(r"(nvidia-nvswitch\d*): SXid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d{1,6}),?\s*(.*)")
_LOST = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?([0-9A-Fa-f:.]+):? (.*(?:fallen|lost|failed).*)")
# Seconds since the start of the machine; ISO 8601; syslog's, which has no year; dmesg -T's.
_UPTIME = re.compile(r"^(?:<\d+>|\S+ ?: ?)?\[ *(\d{1,10})\.(\d{1,9})\]")
_ISO = re.compile(r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_SYSLOG = re.compile(r"^([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)\b")
_CTIME = re.compile(r"^\[?[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\]?")
# What is cut off or damaged of such a line.
_LOOKS = re.compile(
    r"NVRM: Xi|: Xid|\bXid \(|SXid|NVRM: GPU .*(?:fallen|lost)|NVRM\W*$|: NVR?M?$"
    r"|NVRM: (?:X|GP?U?)$|NVRM:\S|NVRM:.*, pid=\S+, name="
)
_MARK = re.compile(r"NVRM: Xid \(|: SXid \(|NVRM: GPU ")  # once in a line
_LONGEST_HEAD = 200  # characters before the driver's words
_MOST_TEXT = 300  # of a line that is kept


def read(source: Source, options: ImportOptions) -> Imported:
    """Read what the log says of GPUs. Raises DamagedError where that is nothing."""
    quality: list[Quality] = []
    events: list[dict[str, object]] = []
    devices: dict[str, int] = {}
    dated, bad = True, 0
    heads: set[str] = set()
    others: list[str] = []
    for line in read_text(source, quality).splitlines():
        told = read_event(line)
        if told is None:
            if _LOOKS.search(line):
                bad += 1
            elif len(line) < _LONGEST_HEAD and not _UPTIME.fullmatch(line.rstrip()):
                others.append(line)
            continue
        bad += len(_MARK.findall(line)) > 1
        heads.add(line[: line.find("NVRM") + 4])
        event, place, text = told
        at, is_dated = read_line_time(line)
        dated = dated and is_dated
        number = None
        if event != "sxid":
            number = devices.setdefault(place.lower(), len(devices))
        shown = make_printable(text)[:_MOST_TEXT]
        source_text = place if number is None else None
        events.append({"time_ns": at, "event": event, "device_id": number, "source": source_text,
                       "text": shown})  # fmt: skip
    if not events:
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is a kernel's log in which NVIDIA's driver reports no error of a GPU",
        )
    bad += count_cut(others, heads)
    quality += note_bad_lines(bad, "message of NVIDIA's driver")
    if not dated:
        quality.append(note_no_date())
    tables = {
        "device_events": pl.DataFrame(events, infer_schema_length=None),
        "devices": pl.DataFrame(
            {
                "device_id": list(devices.values()),
                "vendor": ["nvidia"] * len(devices),
                # They are numbered as they fail; what says which one it is, is the address.
                "name": [f"GPU at {place}" for place in devices],
            },
            schema={"device_id": pl.Int64, "vendor": pl.String, "name": pl.String},
        ),
    }
    return Imported(tables, Recording("kernel log", of_host=True), quality)


def read_event(line: str) -> tuple[str, str, str] | None:
    """What happened, on which PCI address, and the driver's words."""
    if found := _XID.search(line):
        return "xid", found[1], f"XID {found[2]}: {found[3]}".rstrip(": ")
    if found := _SXID.search(line):
        return "sxid", f"{found[1]} {found[2]}", f"SXID {found[3]}: {found[4]}".rstrip(": ")
    if found := _LOST.search(line):
        return "device-lost", found[1], found[2]
    return None


def read_line_time(line: str) -> tuple[int, bool]:
    """When a line was written, in ns, and whether that is a date."""
    if found := _ISO.match(line):
        zone = (found[4] or "+00:00").replace("Z", "+00:00")
        try:
            moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}")
        except ValueError:  # of a minute that has no such second
            return 0, False
        ns = _add_fraction(moment, found[3])
        return (ns, True) if abs(ns) <= INT64_MAX else (0, False)
    if found := _CTIME.match(line):
        return _read_words(f"{found[4]} {found[1]} {found[2]} {found[3]}"), True
    if found := _UPTIME.match(line):
        return int(found[1]) * 10**9 + int(found[2].ljust(9, "0")), False
    if found := _SYSLOG.match(line):
        return _read_words(f"1970 {found[1]} {found[2]} {found[3]}"), False
    return 0, False


def _read_words(text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return _add_fraction(moment, None)


def _add_fraction(moment: datetime, digits: str | None) -> int:
    return int(moment.timestamp()) * 10**9 + int((digits or "0").ljust(9, "0"))
