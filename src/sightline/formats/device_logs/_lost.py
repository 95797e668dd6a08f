"""GPUs that no longer answer: what nvidia-smi prints of them instead of values, as events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.text import make_printable
from sightline.formats._samples import read_number

# NVML's words (nvmlErrorString) for GPU_IS_LOST, RESET_REQUIRED and UNKNOWN; ERR! in the table.
_GONE = re.compile(r"GPU is lost|GPU requires reset")
_FAILED = re.compile(rf"^\[?(?:{_GONE.pattern}|Unknown Error)\]?\.?$|^ERR!$")
# Printed instead of anything else, or above the lines of the others.
HANDLE_LOST = (
    r"Unable to determine the device handle for (?:gpu|GPU)\s?(?:\d{1,3}: )?"
    r"([0-9A-Fa-f:.]{7,16}): ([^\n]{1,200})"
)
_HANDLE_LOST = re.compile(HANDLE_LOST)
_SHOWN = 160  # characters of the tool's own words
_MOST_NAMED = 4


class Lost(NamedTuple):
    """A GPU that does not answer: when, which (None: none with a number), what is wrong, where."""

    time_ns: int
    device: int | None
    event: str
    text: str
    place: str | None = None


def is_failure(text: str) -> bool:
    """Whether a text stands where a GPU would answer, and says that it did not."""
    return _FAILED.match(text.strip()) is not None


def describe_failure(values: Mapping[str, str]) -> tuple[str, str] | None:
    """Event and text of a GPU's values by name; None where all that it was asked for is there.

    A sensor that fails alone is no lost GPU: that is one which says so, or answers less than half.
    """
    failed = {name: text.strip() for name, text in values.items() if _FAILED.match(text.strip())}
    if not failed:
        return None
    numbers = sum(read_number(text) is not None for text in values.values())
    is_lost = len(failed) > numbers or any(_GONE.search(text) for text in failed.values())
    shown = ", ".join(list(failed)[:_MOST_NAMED])
    more = f" and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
    words = next(iter(failed.values())).strip("[].")
    return ("device-lost" if is_lost else "sensor-failed"), f"{words}: no {shown}{more}"


def describe_fabric(values: Mapping[str, str]) -> str | None:
    """What a GPU says that is not well in the NVLink fabric; None of one that is, or has none."""
    told = {
        name.rpartition(".")[2].lower(): text.strip()
        for name, text in values.items()
        if re.search(
            r"(?i)(?:^|\.)fabric\.(?:state|status|health\.summary)$|^health\.summary$", name
        )
    }
    well = {"state": "completed", "status": "success", "summary": "healthy"}
    odd = {
        key: text
        for key, text in told.items()
        if text.lower() not in (well[key], "n/a", "")
        and not _FAILED.match(text)
        and "not supported" not in text.lower()
    }
    shown = ", ".join(f"{key} {text}" for key, text in odd.items())
    return f"NVLink fabric: {shown}" if odd else None


# What nvidia-smi -q says in words, with the words that are well: recovery action, remapped rows.
_STATES = (
    ("recovery-action", re.compile(r"(?i)\bgpu[ _]recovery[ _]action$"), "GPU recovery action"),
    ("row-remap-failure", re.compile(r"(?i)remapp(?:ed_row_failure|ing failure occurred)$"),
     "rows could not be remapped"),
    ("row-remap-pending", re.compile(r"(?i)remapped[ _]rows?\.(?:remapped_row_)?pending$"),
     "rows are remapped at the next reset"),
)  # fmt: skip
_WELL = ("none", "no", "n/a", "", "0")


def list_states(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Events and texts of states of a GPU in which something has to be done."""
    found = []
    for event, name, words in _STATES:
        for key, text in values.items():
            said = text.strip()
            if name.search(key) and said.lower() not in _WELL and not _FAILED.match(said):
                shown = words if said.lower() == "yes" else f"{words}: {said[:_SHOWN]}"
                found.append((event, shown))
    return found


def list_handles_lost(text: str, time_ns: int) -> list[Lost]:
    """GPUs that nvidia-smi could not even ask, by their PCI addresses."""
    return [
        Lost(time_ns, None, "device-lost", make_printable(found[2]).strip()[:_SHOWN], found[1])
        for found in _HANDLE_LOST.finditer(text)
    ]


def report_lost(lost: Sequence[Lost]) -> tuple[dict[str, pl.DataFrame], list[Quality]]:
    """`device_events` of them, and the remark; neither where there is none."""
    if not lost:
        return {}, []
    columns = ["time_ns", "device_id", "event", "text", "source"]
    schema = dict(zip(columns, (pl.Int64, pl.Int64, pl.String, pl.String, pl.String), strict=True))
    events = pl.DataFrame(list(lost), schema=schema, orient="row")
    gone = [one for one in lost if one.event == "device-lost"]
    quality = []
    if gone:
        who = gone[0].place or f"GPU {gone[0].device}"
        quality.append(note_lost(f"{who}: {gone[0].text}"))
    apart = [one for one in lost if one.event == "fabric-error"]
    if apart:
        text = f"GPU {apart[0].device} is not well connected: {apart[0].text}"
        remedy = "See the Fabric Manager's log:  sightline /var/log/fabricmanager.log"
        devices = len({one.device for one in apart})
        quality.append(Quality("fabric_incomplete", "warning", text, devices, remedy))
    return {"device_events": events}, quality


def note_missing_gpus(count: int) -> list[Quality]:
    """A note that a log says that more GPUs are attached than it tells of, as `-i 0` makes it."""
    if not count:
        return []
    text = "attached GPUs are missing from the log: they were not queried, or are lost"
    return [Quality("missing_devices", "info", text, count)]


def note_lost(words: str) -> Quality:
    """The remark that a GPU is gone."""
    text = f"nvidia-smi could not reach a GPU: {make_printable(words)[:_SHOWN]}"
    remedy = "Look for its XID in the kernel's log (dmesg), and restart the GPU or the machine."
    return Quality("device_lost", "error", text, None, remedy)
