"""The table that `nvidia-smi` prints without options, once or again and again (-l).

Two lines of three cells for each GPU, which its heading names one below the other; drivers from 450
on print a third with the MIG mode. Processes follow in a table of their own.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nvidia_smi_table",
    label="nvidia-smi (table)",
    strong=(rb"(?:\A|\n)\| NVIDIA-SMI [0-9][0-9.]{2,20} +(?:KMD|Driver) Version: ?[0-9]",),
    weak=(),
    looks_like="the line | NVIDIA-SMI 580.159.04   Driver Version: 580.159.04",
    suffixes=(".txt", ".log", ".out"),
    version=1,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_BANNER = re.compile(r"^\| NVIDIA-SMI [0-9]", re.MULTILINE)
_MOMENT = re.compile(r"^(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*$", re.MULTILINE)
_GPU = re.compile(
    r"^\|\s{1,4}(\d{1,4})\s+(\S.*?)\s+(?:On|Off|N/A)\s*"
    r"\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s[^|]*\|([^|]*)\|\s*$"
)
_VALUES = re.compile(
    r"^\|\s*(\S+)\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s[^|]*\|\s*$"
)
# Below the GPU: GPU and compute instance (from driver 450 on), process, type, name, memory.
_PROCESS = re.compile(
    r"^\|\s+(\d{1,4})\s+(?:(?:\d+|N/A)\s+(?:\d+|N/A)\s+)?(\d{1,10})\s+[CGM+]+\s.*\s(\S+)\s*\|\s*$"
)
# By the names that `--query-gpu` has for them, in the order of _VALUES.
_NAMES = (
    "fan.speed", "temperature.gpu", "power.draw", "power.limit", "memory.used", "memory.total",
    "utilization.gpu",
)  # fmt: skip
_ECC = "ecc.errors.uncorrected.volatile.total"


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where none has a number."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    samples, times, bad = Samples(), 0, 0
    begins = [found.start() for found in _BANNER.finditer(text)]
    before = 0
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(text)], strict=True)):
        moments = _MOMENT.findall(text[before:begin])  # it stands above the table
        at = read_time(moments[-1], "%a %b %d %H:%M:%S %Y") if moments else None
        times += at is not None
        lines = text[begin:end].splitlines()
        bad += not _read_table(lines, number * 10**9 if at is None else at, samples)
        before = begin
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no GPU in it has a number")
    quality.append(note_zone() if times == len(begins) else note_no_times(len(begins) > 1))
    quality += note_bad_lines(bad, "tables of nvidia-smi")
    return Imported(samples.tables("nvidia"), Recording("nvidia-smi"), quality)


def _read_table(lines: list[str], at: int, samples: Samples) -> bool:
    """Whether it has a GPU."""
    found = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        gpu, process = _GPU.match(line), _PROCESS.match(line)
        if gpu is not None:
            found, device = True, int(gpu[1])
            samples.names[device] = gpu[2]
            samples.add(_ECC, gpu[4], at, device)
            values = _VALUES.match(below)
            for name, value in zip(_NAMES, values.groups() if values else (), strict=False):
                samples.add(name, value, at, device)
        elif process is not None:
            who = f"process {process[2]}"
            samples.add("process memory", process[3], at, int(process[1]), who)
    return found
