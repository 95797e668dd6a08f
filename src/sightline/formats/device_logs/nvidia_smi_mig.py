"""How a GPU can be divided, and is, as `nvidia-smi mig` prints it.

-lgip lists profiles, -lgipp where each may lie, -lgi and -lci the instances that there are. They
say what is possible or set, not what happens: each number becomes one value of `counters`, with its
profile or instance as the source.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, read_number
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nvidia_smi_mig",
    label="nvidia-smi mig -lgip, -lgipp, -lgi and -lci",
    strong=(
        rb"(?:\A|\n)\| GPU instance profiles: +\|\r?\n",
        rb"(?:\A|\n)\| (?:GPU|Compute) instances: +\|\r?\n",
        rb"(?:\A|\n)GPU {1,3}[0-9]{1,3} Profile ID {1,3}[0-9]{1,4} Placements? ?:",
    ),
    weak=(),
    looks_like="GPU instance profiles, or GPU 0 Profile ID 19 Placements:",
    suffixes=(".txt", ".log", ".out"),
    version=4,
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
)

# A profile's first line: GPU, name, id, free and all instances, GiB, P2P, SMs, decoders, encoders;
# its second: copy engines, JPEG decoders, optical flow accelerators.
_FIRST = re.compile(
    r"^\|\s+(\d{1,4})\s+(MIG \S+)\s+\d+\s+(\d+)/(\d+)\s+(\S+)\s+(?:Yes|No)"
    r"\s+(\d+)\s+(\d+)\s+(\d+)\s*\|"
)
_SECOND = re.compile(r"^\|\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*$")
_PLACEMENT = re.compile(
    r"^GPU\s+(\d{1,4}) Profile ID\s+(\d{1,4}) Placements?\s*:\s*\{([\d,]+)\}:(\d+)\s*$"
)
# GPU, name, profile's and instance's ids, slot and slots; of compute instances the GPU instance,
# too, and in older drivers no place.
_INSTANCE = re.compile(
    r"^\|\s+(\d{1,4})\s+(?:(\d{1,4})\s+)?(MIG \S+)\s+(\d{1,4})\s+(\d{1,4})"
    r"(?:\s+(\d+):(\d+))?\s*\|\s*$"
)
# A row that is damaged: numbers between edges, or no edge at its end.
_LOOKS = re.compile(r"^\|[\d\s]*\d[\d\s]*(?:\||$)|^[|+].*[^|+\s]\s*$")
_GIB = 1 << 30
_FIRST_NAMES = (
    ("instances free", 1), ("instances", 1), ("instance memory", _GIB), ("SMs", 1),
    ("decoders", 1), ("encoders", 1),
)  # fmt: skip
_SECOND_NAMES = ("copy engines", "JPEG decoders", "optical flow accelerators")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all profiles and placements. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    samples, bad = Samples(), 0
    device, profile, due = 0, None, 0
    for line in read_text(source, quality).splitlines():
        first, second, placed = _FIRST.match(line), _SECOND.match(line), _PLACEMENT.match(line)
        if first is not None:
            device, profile, due = int(first[1]), first[2], due + 1
            for (name, scale), value in zip(_FIRST_NAMES, first.groups()[2:], strict=True):
                unit = "bytes" if scale == _GIB else ""
                if (number := read_number(value)) is not None:
                    samples.add(name, number[0] * scale, 0, device, profile, unit)
                else:
                    bad += 1
        elif (made := _INSTANCE.match(line)) is not None:
            gpu, within, name, _, instance, start, size = made.groups()
            where = f"{name} instance {instance}"
            where += "" if within is None else f" of GPU instance {within}"
            samples.add("instances made", 1, 0, int(gpu), where)
            if start is not None:
                samples.add("first slot", start, 0, int(gpu), where)
                samples.add("slots", size, 0, int(gpu), where)
        elif second is not None and profile is not None:
            due -= 1
            for name, value in zip(_SECOND_NAMES, second.groups(), strict=True):
                samples.add(name, value, 0, device, profile)
        elif placed is not None:
            device, profile = int(placed[1]), f"MIG profile {placed[2]}"
            samples.add("placements", len(placed[3].split(",")), 0, device, profile)
            samples.add("memory slices", placed[4], 0, device, profile)
        else:
            bad += line.startswith("GPU ") or " MIG " in line or bool(_LOOKS.match(line))
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no profile in it can be read")
    quality.append(note_no_times(0))
    quality += samples.note_gaps()
    bad += abs(due)  # each profile has two lines
    quality += note_bad_lines(bad, "profiles of nvidia-smi")
    return Imported(samples.tables("nvidia"), Recording("nvidia-smi"), quality)
