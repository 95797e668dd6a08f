"""How GPUs and NICs of a node are joined, as `nvidia-smi topo -m` prints it.

It says what is wired, not what happens: of each GPU and each peer one value of `counters`, the peer
in the source: bonded NVLinks (NV#), or how far the path through PCIe goes, 1 to 5 (PIX, PXB, PHB,
NODE, SYS, in the words of its legend); its NUMA node, and how many CPUs are near.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import format_several
from sightline.errors import DamagedError
from sightline.formats._samples import Samples
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nvidia_smi_topo",
    label="nvidia-smi topo -m",
    # A prompt may stand above; where more does, it is a page of several tools.
    strong=(
        rb"\A(?:[^\n]{0,200}\n){0,3}[ \t]*(?:\x1b\[4m)?GPU\d{1,3}[ \t][^\n]{0,4000}CPU Affinity",
    ),
    weak=(),
    looks_like="a matrix GPU0 GPU1 … CPU Affinity, with NV12, PIX, SYS",
    suffixes=(".txt", ".log", ".out"),
    version=3,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

# Nearest first, by the legend that nvidia-smi prints.
_PATHS = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}
_SELF = "X"
_CELL = re.compile(rf"^(?:{_SELF}|NV\d{{1,3}}|{'|'.join(_PATHS)})$")
_GPU = re.compile(r"^GPU(\d{1,3})$")
_CPUS = re.compile(r"^\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*$")
_UNDERLINED = re.compile(r"\x1b\[\d*m")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the matrix. Raises DamagedError where no row of a GPU is whole."""
    quality: list[Quality] = []
    samples, bad = Samples(), 0
    names: list[str] = []
    told: set[str] = set()
    joins: dict[tuple[int, int], str] = {}
    behind: list[int] = []  # cells of each GPU's row behind those of its peers
    for line in read_text(source, quality).splitlines():
        words = _UNDERLINED.sub("", line).split()
        if not words or words[0].startswith("Legend"):
            if names:
                break
        elif "Affinity" in words:
            names = words[: words.index("CPU")] if "CPU" in words else []
        elif names and words[0] in names:
            told.add(words[0])
            cells = words[1 : len(names) + 1]
            if len(cells) < len(names) or not all(_CELL.match(cell) for cell in cells):
                bad += 1
            elif gpu := _GPU.match(words[0]):
                behind.append(len(words) - len(names) - 1)
                bad += not _add_row(samples, int(gpu[1]), names, cells, words[len(names) + 1 :])
                peers = ((_GPU.match(name), cell) for name, cell in zip(names, cells, strict=True))
                joins |= {(int(gpu[1]), int(p[1])): cell for p, cell in peers if p is not None}
    if not samples.has_values() and not joins:
        raise DamagedError(f"cannot read {source.given}", why="no row of a GPU is whole")
    bad += sum(count != max(behind) for count in behind)
    # Each that the first line names has a row of its own.
    missing = len({*names} - told)
    if missing:
        text = "GPUs or NICs that the matrix names have no row in it: what joins them is missing"
        quality.append(Quality("missing_rows", "warning", text, missing))
    quality += [*note_bad_lines(bad, "rows of the matrix"), *_note_joins(joins)]
    return Imported(samples.tables("nvidia"), Recording("nvidia-smi"), quality)


def _add_row(
    samples: Samples, gpu: int, names: list[str], cells: list[str], rest: list[str]
) -> bool:
    """What joins a GPU with each peer; GPUs with each other once. Whether all of it is whole."""
    samples.number_device(str(gpu), gpu)
    for name, cell in zip(names, cells, strict=True):
        peer = _GPU.match(name)
        if cell == _SELF or (peer is not None and int(peer[1]) < gpu):
            continue
        if cell.startswith("NV"):
            samples.add("NVLinks", cell[2:], 0, gpu, f"to {name}")
        else:
            samples.add("PCIe path", _PATHS[cell], 0, gpu, f"to {name} ({cell})")
    if rest and _CPUS.match(rest[0]):
        ends = [[int(end) for end in part.split("-")] for part in rest[0].split(",")]
        samples.add("CPUs near", sum(max(0, e[-1] - e[0] + 1) for e in ends), 0, gpu)
        if len(rest) > 1 and rest[1].isdecimal():
            samples.add("NUMA node", rest[1], 0, gpu)
    is_node = len(rest) < 2 or rest[1] == "N/A" or all(c.isdecimal() or c in ",-" for c in rest[1])
    is_whole = is_node and not (len(rest) > 1 and rest[1].strip(",-") == "")
    return not rest or (is_whole and (_CPUS.match(rest[0]) is not None or rest[0] == "N/A"))


def _note_joins(joins: dict[tuple[int, int], str]) -> list[Quality]:
    """Pairs of GPUs without NVLink, where others have it, or that are on two sockets."""
    pairs = {(a, b): cell for (a, b), cell in joins.items() if a < b}
    slow = {pair: cell for pair, cell in pairs.items() if not cell.startswith("NV")}
    if not slow:
        return []
    first = next(iter(slow))
    which = f"GPU {first[0]} and GPU {first[1]} by {slow[first]}"
    count = f"of {format_several(len(pairs), 'pair')} of GPUs have no NVLink ({which})"
    if len(slow) < len(pairs):
        text = f"{count}: give one job GPUs that have it"
        return [Quality("uneven_links", "warning", text, len(slow))]
    return [Quality("no_nvlink", "info", count, len(slow))]
