"""A node by one file, which may be a kernel's log in which NVIDIA's driver reports nothing."""

from __future__ import annotations

import re
from pathlib import Path

from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.errors import DamagedError, UnknownFormatError
from sightline.formats._stacks import read_text
from sightline.formats.device_logs.kernel_log import read_event
from sightline.health.node import Event, Node
from sightline.health.reading.kernel import HOST_KINDS, list_events
from sightline.health.reading.recordings import read_recordings
from sightline.opening.run import open_run

_REMARK = re.compile(r"-- .* --$|-- (?:Journal|Logs) begins? at ")  # of journalctl, in a line
# The prefix of dmesg, in seconds or as a date; the kernel's name in a journal.
_BY_KERNEL = re.compile(
    r"(?:<\d+>)?\[ *\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|[^\[]{0,120}\bkernel: "
)
_MOST_BYTES = 1 << 30


def read_node(given: str) -> Node:
    """What a recording, or the log of a node that is well, has of a node. Raises InputError."""
    path = Path(given)
    try:
        run = open_run([given])
    except (DamagedError, UnknownFormatError):
        if not path.is_file() or not reports_nothing(path):
            raise
        return Node(values={"kernel_log": 1.0}, events=_list_host_events(path))
    node = read_recordings(run)
    if path.is_file() and run.is_all_of("kernel_log"):
        node.events += _list_host_events(path)
    return node


def _list_host_events(path: Path) -> list[Event]:
    """What the kernel says of processors, PCIe and memory, which importers of GPUs leave out."""
    events = list_events(read_text(Source(path, str(path)), []), {})
    return [event for event in events if event.kind in HOST_KINDS]


def reports_nothing(path: Path) -> bool:
    """Whether a file is a kernel's log without an event of a GPU.

    Its first line is the kernel's, or journalctl says that it has none. An empty file is no such
    log: whoever may not read the kernel's messages gets one, too.
    """
    source = Source(path, str(path))
    if source.size > _MOST_BYTES:
        return False
    quality: list[Quality] = []
    lines = [line for line in read_text(source, quality).splitlines() if line.strip()]
    told = [line for line in lines if not _REMARK.match(line)]
    if not lines or quality:
        return False
    if told and not _BY_KERNEL.match(told[0]):
        return False
    return not any(map(read_event, told))
