"""The table that `nvidia-smi` prints without options, once or again and again (-l).

Two lines of three cells for each GPU, which its heading names one below the other; drivers from 450
on print a third with the MIG mode. MIG devices and processes follow in tables of their own. A GPU
that does not answer has ERR! in its cells, or stands in a line of its own instead of the table.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.device_logs._lost import (
    Lost,
    describe_failure,
    list_handles_lost,
    report_lost,
)

IMPORTER = Importer(
    name="nvidia_smi_table",
    label="nvidia-smi (table)",
    strong=(
        rb"(?:\A|\n)[ \t]{0,20}\| NVIDIA-SMI [0-9][0-9.]{2,20} +(?:KMD|Driver) Version: ?[0-9]",
        rb"\A\s*(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\s+)?Unable to determine the device "
        rb"handle for (?:gpu|GPU)\s?(?:\d{1,3}: )?[0-9A-Fa-f:.]{7,16}: ",  # in a file of its own
    ),
    weak=(),
    looks_like="the line | NVIDIA-SMI 580.159.04   Driver Version: 580.159.04",
    suffixes=(".txt", ".log", ".out"),
    version=7,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_BANNER = re.compile(r"^[ \t]*\| NVIDIA-SMI [0-9]", re.MULTILINE)
_MOMENT = re.compile(r"^[ \t]*(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*$", re.MULTILINE)
# Number, name and driver model or persistence mode; bus id and display; ECC errors.
_GPU = re.compile(
    r"^\|\s{1,4}(\d{1,4})\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*"
    r"\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s[^|]*\|([^|]*)\|\s*$"
)
# Fan, temperature, performance state, power and its limit; memory; utilization, compute mode.
_BOARD = re.compile(r"^\s*(\S+)\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*$")
_ROW = re.compile(r"^(?:\|\s{1,4}\d|.*\d[wW]? /|.*MiB)")
_EDGE = re.compile(r"^\+[-+]+\+$")
_PAIR = re.compile(r"^\s*(\S+)\s*/\s*(\S+)\s*$")
# Below the GPU: GPU and compute instance (from driver 450 on), process, type, name, memory.
_PROCESS = re.compile(
    r"^\|\s+(\d{1,4})\s+(?:(?:\d+|N/A)\s+(?:\d+|N/A)\s+)?(\d{1,10})\s+[CGM+]+\s.*\s(\S+)\s*\|\s*$"
)
# GPU, GPU instance, compute instance, MIG device; memory; SMs and ECC errors; engines.
_MIG = re.compile(
    r"^\|\s+(\d{1,4})\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s*"
    r"\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\d{1,4})\s+(\S+)\s*\|[^|]*\|\s*$"
)
# By the names that `--query-gpu` has for them.
_BOARD_NAMES = ("fan.speed", "temperature.gpu", "power.draw", "power.limit")
_MEMORY_NAMES = ("memory.used", "memory.total")
_LEAST_WIDTH = 40  # of a table, which has 79 characters or more
_UTILIZATION = "utilization.gpu"
_ECC = "ecc.errors.uncorrected.volatile.total"


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where none has a number, and no GPU is lost."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    samples, times, bad, cut = Samples(always_says=True), 0, 0, 0
    begins = [found.start() for found in _BANNER.finditer(text)]
    lost: list[Lost] = []
    if begins:  # rows of a table whose first line is damaged
        bad += sum(bool(_GPU.match(line.strip())) for line in text[: begins[0]].splitlines())
    before = 0
    for number, (begin, end) in enumerate(pairwise([*begins, len(text)])):
        moments = _MOMENT.findall(text[before:begin])  # it stands above the table
        at = read_time(moments[-1], "%a %b %d %H:%M:%S %Y") if moments else None
        times += at is not None
        at = number * 10**9 if at is None else at
        lost += list_handles_lost(text[before:begin], at)
        lines = [line.strip() for line in text[begin:end].splitlines()]
        has_gpu, unread = _read_table(lines, at, samples, lost)
        bad += unread + (not has_gpu)
        # The last line is the lower edge of a table, or the time of the next one.
        last = next((line for line in reversed(lines) if line), "")
        cut += not (_EDGE.match(last) or _MOMENT.match(last) or not last.startswith(("|", "+")))
        before = begin
    lost += list_handles_lost(text[before:], len(begins) * 10**9)
    if not samples.has_values() and not lost:
        raise DamagedError(f"cannot read {source.given}", why="no GPU in it has a reading")
    quality.append(
        note_zone() if begins and times == len(begins) else note_no_times(len(begins) > 1)
    )
    quality += samples.note_gaps()
    quality += note_bad_lines(bad, "rows of nvidia-smi")
    if cut:
        quality.append(Quality("truncated", "warning", "tables have no lower edge", cut))
    events, notes = report_lost(lost)
    tables = samples.tables("nvidia") | events
    return Imported(tables, Recording("nvidia-smi"), quality + notes)


def _read_table(lines: list[str], at: int, samples: Samples, lost: list[Lost]) -> tuple[bool, int]:
    """Whether it has a GPU, and how many lines look like rows, and are none."""
    found, bad, second = False, 0, ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if (gpu := _GPU.match(line)) is not None:
            found, device, second = True, int(gpu[1]), below
            values = {"name": gpu[2], _ECC: gpu[4], **_read_values(below)}
            bad += len(values) < 2 + len(_BOARD_NAMES) + len(_MEMORY_NAMES)
            if gpu[2] != "ERR!":
                samples.names[device] = gpu[2]
            for name, value in list(values.items())[1:]:
                samples.add(name, value, at, device)
            if (failure := describe_failure(values)) is not None:
                lost.append(Lost(at, device, *failure))
        elif (process := _PROCESS.match(line)) is not None:
            who = f"process {process[2]}"
            samples.add("process memory", process[3], at, int(process[1]), who)
        elif (mig := _MIG.match(line)) is not None:
            device, who = int(mig[1]), f"MIG {mig[2]}/{mig[3]}"
            for name, value in zip((*_MEMORY_NAMES, "SMs", _ECC), mig.groups()[4:], strict=True):
                samples.add(name, value, at, device, who)
        elif line is not second:
            # A row, though damaged: a number behind its edge, or no edge at its end.
            bad += bool(_ROW.match(line)) or (line.startswith(("|", "+")) and line[-1:] not in "|+")
            bad += line[:1] in ("|", "+") and len(line) < _LEAST_WIDTH
    return found, bad


def _read_values(line: str) -> dict[str, str]:
    """Of a GPU's second line what each cell holds, by name: one that is odd spoils no other."""
    cells = line.strip("|").split("|")
    if len(cells) != 3:
        return {}
    board, memory = _BOARD.match(cells[0]), _PAIR.match(cells[1])
    values = dict(zip(_BOARD_NAMES, board.groups(), strict=True)) if board else {}
    if memory:
        values |= dict(zip(_MEMORY_NAMES, memory.groups(), strict=True))
    used = cells[2].split()
    return values | ({_UTILIZATION: used[0]} if used else {})
