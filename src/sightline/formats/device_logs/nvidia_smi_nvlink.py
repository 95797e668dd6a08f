"""What `nvidia-smi nvlink` prints of each link: -s its speed, -e its errors, -gt what went over it.

A heading for each GPU, below it lines of its links; several commands' output may follow each other,
and a GPU's heading that comes again begins another reading.
"""

from __future__ import annotations

import re
from collections import defaultdict

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import format_several
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, read_number
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nvidia_smi_nvlink",
    label="nvidia-smi nvlink",
    strong=(
        rb"(?:\A|\n)[ \t]{0,20}GPU \d{1,3}: [^\n]{1,120}\s{1,40}Link \d{1,3}: "
        rb"(?:\d[\d.]* GB/s|<inactive>|[A-Z][A-Za-z0-9 ]{1,40}: \S)",
    ),
    weak=(),
    looks_like="GPU 0: NVIDIA H100 (UUID: …), and below it Link 0: 26.562 GB/s or Replay Errors: 0",
    suffixes=(".txt", ".log", ".out"),
    version=3,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_GPU = re.compile(r"^\s*GPU (\d{1,4}): (.*?)\s*(?:\(UUID: .*\))?\s*$")
_LINK = re.compile(r"^\s*Link (\d{1,4}): (.*?)\s*$")
_COUNTER = re.compile(r"^([A-Za-z][A-Za-z0-9 ]{1,40}): (.*)$")
_MOVED = {"Tx": "sent", "Rx": "received"}
# Counted before they are corrected: some of these are usual on every link.
_USUAL = re.compile(r"^(?:Raw|FEC|Symbol)\b")
_SPEED, _ACTIVE = "NVLink speed", "NVLink active"
_GB = 10**9

_Link = tuple[int, int]  # GPU and link


class _Links:
    """What the lines say, as samples and as the last state of each link."""

    def __init__(self) -> None:
        self.samples, self.bad = Samples(), 0
        self.is_active: dict[_Link, bool] = {}
        self.errors: dict[_Link, dict[str, int]] = defaultdict(dict)
        self._seen: set[tuple[int, int, str]] = set()
        self.rounds = 0

    def add(self, gpu: int, link: int, text: str) -> None:
        """A line of a link."""
        found = _COUNTER.match(text)
        name, value = ("", text) if found is None else (found[1].strip(), found[2])
        if (gpu, link, name) in self._seen:
            self._seen, self.rounds = set(), self.rounds + 1
        self._seen.add((gpu, link, name))
        number = read_number(value)
        if not name:
            self._add_state(gpu, link, value)
        elif number is None:
            self.bad += 1
        else:
            self._add_counter(gpu, link, name, value)
            if re.search(r"\bErrors?$", name) and not _USUAL.match(name):
                self.errors[gpu, link][name.lower()] = int(number[0])

    def _add_state(self, gpu: int, link: int, value: str) -> None:
        number = read_number(value.removesuffix("GB/s"))
        if number is None and value != "<inactive>":
            self.bad += 1
            return
        self.is_active[gpu, link] = number is not None
        self._put(_ACTIVE, int(number is not None), gpu, link, "")
        if number is not None:
            self._put(_SPEED, number[0] * _GB, gpu, link, "bytes/s")

    def _add_counter(self, gpu: int, link: int, name: str, value: str) -> None:
        kind, _, way = name.rpartition(" ")
        if way in _MOVED and (kib := read_number(value.removesuffix("KiB"))) is not None:
            self._put(f"NVLink {kind.lower()} {_MOVED[way]}", kib[0] * 1024, gpu, link, "bytes")
        else:
            self._put(f"NVLink {name[:1].lower()}{name[1:]}", value, gpu, link, "")

    def _put(self, name: str, value: str | float, gpu: int, link: int, unit: str) -> None:
        self.samples.add(name, value, self.rounds * _GB, gpu, f"link {link}", unit)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all links. Raises DamagedError where no line of one can be read."""
    quality: list[Quality] = []
    links, gpu = _Links(), None
    for line in read_text(source, quality).splitlines():
        if (heading := _GPU.match(line)) is not None:
            gpu = int(heading[1])
            links.bad += "Link " in heading[2]  # a line of it stands behind it
            links.samples.names[gpu] = heading[2]
        elif (link := _LINK.match(line)) is not None and gpu is not None:
            links.add(gpu, int(link[1]), link[2])
        else:
            links.bad += bool(line)  # also one of blanks, which is what is left of a link's
    if not links.samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of a link can be read")
    names = links.samples.names
    quality += [note_no_times(int(links.rounds > 0)), *note_bad_lines(links.bad, "states of links")]
    quality += [*_note_inactive(links.is_active, names), *_note_errors(links.errors)]
    quality += links.samples.note_gaps()
    return Imported(links.samples.tables("nvidia"), Recording("nvidia-smi"), quality)


def _note_inactive(is_active: dict[_Link, bool], names: dict[int, str]) -> list[Quality]:
    """Where a GPU has fewer links than another of its kind: unused ones are alike on all."""
    active: dict[int, int] = defaultdict(int)
    for (gpu, _), state in is_active.items():
        active[gpu] += state
    most: dict[str, int] = defaultdict(int)
    for gpu, count in active.items():
        most[names[gpu]] = max(most[names[gpu]], count)
    fewer = {gpu: count for gpu, count in active.items() if count < most[names[gpu]]}
    shown = ", ".join(f"GPU {g}: {n} of {most[names[g]]}" for g, n in sorted(fewer.items()))
    text = f"GPUs with fewer active NVLinks than others of their kind: {shown}"
    remedy = "Look for XID 74 and SXIDs in the kernel's log, and reset the GPU."
    return [Quality("links_inactive", "warning", text, None, remedy)] if fewer else []


def _note_errors(errors: dict[_Link, dict[str, int]]) -> list[Quality]:
    """Links that had to repeat, or lost, what was sent."""
    wrong = [(place, {k: v for k, v in own.items() if v}) for place, own in sorted(errors.items())]
    wrong = [(place, own) for place, own in wrong if own]
    if not wrong:
        return []
    (gpu, link), own = max(wrong, key=lambda one: sum(one[1].values()))
    shown = ", ".join(f"{count:,} {name}" for name, count in own.items())
    more = f"; {format_several(len(wrong), 'link')} have errors" if len(wrong) > 1 else ""
    text = f"NVLink errors: GPU {gpu}, link {link}: {shown}{more}"
    remedy = "Ask again under load: errors that grow slow every collective over that link."
    return [Quality("link_errors", "warning", text, None, remedy)]
