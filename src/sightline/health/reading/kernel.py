"""What the kernel's log says of devices: /dev/kmsg, else dmesg, else the journal.

Without root none may be readable; the check then says so, and what to type.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sightline.core.text import make_printable
from sightline.formats.device_logs.kernel_log import read_event, read_line_time
from sightline.health.node import Event, Node
from sightline.health.reading.programs import run_program

_MOST_BYTES = 16 << 20  # of a log that is read: a ring buffer holds 1 MiB as a rule
_MOST_TEXT = 160
_OTHERS = (
    ("machine-check", re.compile(r"mce: \[Hardware Error\]: (?!Machine check events logged)(.*)")),
    ("pcie-error", re.compile(r"(AER: .*(?:[Ee]rror|Fatal).*|PCIe Bus Error: .*)")),
    ("out-of-memory", re.compile(r"(Out of memory: Killed process) \d+")),
)
HOST_KINDS = tuple(kind for kind, _ in _OTHERS)  # of events that are none of a GPU
# A record of /dev/kmsg: priority, sequence number, microseconds since boot.
_KMSG = re.compile(r"^\d{1,6},\d{1,12},(\d{1,15}),[^;]{0,40};")
_COMMANDS = (
    ("dmesg", "--time-format", "iso"),
    ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso"),
)


def read_kernel_log(node: Node, root: Path = Path("/")) -> None:
    """The log's events, into the node."""
    text = _read_kmsg(root / "dev" / "kmsg")
    why = "the kernel log may not be read: run as root, or give it as a file (dmesg > kernel.log)"
    for command in _COMMANDS if text is None else ():
        done = run_program(command)
        if isinstance(done, str) and done.strip():
            text = done
            break
    if text is None:
        node.missing["kernel_log"] = why
        return
    node.values["kernel_log"] = 1.0
    places = {_shorten(gpu.pci): gpu.number for gpu in node.gpus}
    node.events += list_events(text, places, _read_boot_ns(root))


def list_events(text: str, places: dict[str, int], boot_ns: int | None = None) -> list[Event]:
    """What lines of a kernel log say of devices; GPUs by their PCI addresses.

    Times are in ns since 1970, None where a line has only the time since a boot that is not known.
    """
    found = []
    for line in text.splitlines():
        at = _read_moment(line, boot_ns)
        told = read_event(line)
        if told is not None:
            kind, place, words = told
            device = places.get(_shorten(place))
            shown = make_printable(words)[:_MOST_TEXT]
            where = None if device is not None else place
            found.append(Event(kind, shown, device, where, at))
            continue
        for kind, pattern in _OTHERS:
            if match := pattern.search(line):
                shown = make_printable(match[1]).strip()[:_MOST_TEXT]
                found.append(Event(kind, shown, None, None, at))
                break
    return found


def _read_moment(line: str, boot_ns: int | None) -> int | None:
    if found := _KMSG.match(line):
        return None if boot_ns is None else boot_ns + int(found[1]) * 1000
    at, is_dated = read_line_time(line)
    if is_dated:
        return at
    return boot_ns + at if boot_ns is not None and at else None


def _read_boot_ns(root: Path) -> int | None:
    """When the kernel began, in ns since 1970 (proc(5), btime)."""
    try:
        text = (root / "proc" / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^btime (\d{1,12})$", text, re.MULTILINE)
    return int(found[1]) * 10**9 if found else None


def _shorten(address: str) -> str:
    """3b:00 of 00000000:3B:00.0 and of 0000:3b:00."""
    parts = address.lower().split(".")[0].split(":")
    return ":".join(parts[-2:])


def _read_kmsg(path: Path) -> str | None:
    """All records of the ring buffer without waiting for more; None where it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    parts: list[bytes] = []
    size = 0
    try:
        while size < _MOST_BYTES:
            try:
                record = os.read(descriptor, 1 << 16)
            except BrokenPipeError:  # the record was overwritten meanwhile: the next one
                continue
            except OSError:  # no more records, or none that may be read
                break
            if not record:
                break
            parts.append(record)
            size += len(record)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode("utf-8", "replace") if parts else None
