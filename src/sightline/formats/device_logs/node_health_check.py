"""The log of NHC, LBNL's Node Health Check, and of Azure's: which checks passed and which failed.

`ERROR:  nhc:  Health check failed:  check_gpu_xid: GPU Xid errors detected. FaultCode: NHC2001`
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import note_no_times
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_cut, note_blank_lines
from sightline.formats.device_logs._check_events import (
    FAILED,
    PASSED,
    CheckEvent,
    make_check_tables,
)

IMPORTER = Importer(
    name="node_health_check",
    label="NHC's log (LBNL, Azure)",
    strong=(rb"(?:\A|\n)[^\n]{0,120}\bnhc(?:\[\d+\])?:  ?Health check (?:failed|passed):",),
    weak=(),
    looks_like="lines such as ERROR:  nhc:  Health check failed:  check_gpu_count: …",
    suffixes=(".log", ".txt", ".out"),
    version=6,
    source="https://github.com/Azure/azurehpc-health-checks",
)

_LINE = re.compile(
    r"\bnhc(?:\[\d+\])?: +Health check (failed|passed): +(?:(check_\w+|collect_\w+|\w+): *)?(.*)$"
)
_LOOKS = re.compile(r"\bnhc\b|Health check|\bcheck_\w|^(?:ERROR|SUCCESS)\b")  # though damaged
_HEADS = ("SUCCESS:  nhc:  Health check passed:", "ERROR:  nhc:  Health check failed:")
_GPU = re.compile(r"\bGPU(?: id| index)?[ :]+(\d{1,3})\b", re.IGNORECASE)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all verdicts. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    events: list[CheckEvent] = []
    bad = 0
    text = read_text(source, quality)
    quality += note_blank_lines(text)
    for line in text.splitlines():
        bad += line.count("Health check") > 1
        if found := _LINE.search(line):
            gpu = _GPU.search(found[3])
            events.append(
                CheckEvent(
                    0,
                    FAILED if found[1] == "failed" else PASSED,
                    found[2] or "nhc",
                    int(gpu[1]) if gpu else None,
                    found[3],
                )
            )
        else:
            bad += bool(_LOOKS.search(line)) or count_cut([line], _HEADS, least=1) > 0
    if not events:
        raise DamagedError(f"cannot read {source.given}", why="no check in it passed or failed")
    quality += [note_no_times(0), *note_bad_lines(bad, "verdict of a check")]
    return Imported(make_check_tables(events), Recording("NHC", of_host=True), quality)
