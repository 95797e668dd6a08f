"""DeepSpeed's FLOPs profiler: the forward time of each module, and what a step does and reaches.

Format: deepspeed/profiling/flops_profiler/profiler.py: a summary, then the model as PyTorch prints
it, each module with its parameters, MACs, latency (wall time of its forward, GPU waited for) and
FLOPS, rounded to two decimals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

IMPORTER = Importer(
    name="deepspeed_flops",
    label="DeepSpeed FLOPs profiler report",
    strong=(rb"(?:^|\n)-+ DeepSpeed Flops Profiler -+",),
    weak=(),
    looks_like="a text with the heading DeepSpeed Flops Profiler",
    suffixes=(".txt", ".log"),
    version=6,
    source="https://www.deepspeed.ai/tutorials/flops-profiler/",
)

_PREFIX = {"": 1.0, "T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?) ?([TGMKmun]?)"
_LATENCY = re.compile(rf"(?<![\w.]){_NUMBER}s = \d[\d.]*% latency")
# `(0): Linear(…` inside a model, `Model(` at its top; some brackets end on another line.
_MODULE = re.compile(r"^( *)(?:\((\w{1,200})\): )?([A-Za-z_]\w{0,200})\((.*)$")
# Of another module, behind a line or cut off; and of a total without its name, or a name alone.
_PART = re.compile(r"\(\w{1,200}\): [A-Za-z_]\w*\(|^ *\(\w*$|^ *[^(\s]*: [A-Z]\w*\($")
_NAMELESS = re.compile(
    rf"^\s+{_NUMBER} ?(?:s|FLOPS|MACs)? *$|^(?:fwd|bwd|step|iter|params)[\w ]*$"
    r"|^\S*\d\S*: {2,}\d|^(?:fw?|bw?|st?e?|ite?|pa?r?a?m?)$|^[^a-zA-Z]*: +\S"
)
_SUMMARY = re.compile(rf"^\s*([a-z+/][^:\n]*?)(?: = [^:\n]*)?: +{_NUMBER}(s|FLOPS|MACs)? *$", re.M)
_ENDS = re.compile(r"^-{20,}\s*$", re.M)
_UNITS = {"s": "s", "FLOPS": "FLOP/s", "MACs": "MACs", None: ""}
# Of a line of a module or a total, though it is damaged or cut off.
_LOOKS = re.compile(r"latency|MACs|FLOPS|Params|\): |: +\d|= \d[\d.]*%")
_OF_TOTAL = re.compile(r"params|FLOPS|flops|latency|MACs")
_EXPLAINS = re.compile(r"\([\w, ]+\)(?!.*:)|^FLOPS per GPU = ")  # nor is this one kept
# Settings of the run, and no measurements.
_SIZES = re.compile(r"size|expert")
_MAX_DEPTH = 200


@dataclass(frozen=True)
class _Module:
    path: tuple[str, ...]
    seconds: float | None  # with all that it contains; None where it has no forward of its own


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the modules' own times. Raises DamagedError where none has one."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    summary, _, detail = text.partition("Detailed Profile per GPU")
    totals = _list_totals(summary)
    modules, bad = parse_modules(detail)
    bad += _count_bad_totals(summary)
    whole = totals.get("fwd latency")
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    for path, seconds in find_own_times(modules, whole[0] if whole else None).items():
        frames = [Frame("op", name) for name in path]
        weights.append((trie.add(frames), "cpu_time_ns", round(seconds * 1e9), "exact"))
    if not modules:
        raise DamagedError(f"cannot read {source.given}", why="it has no module with a latency")
    if modules[0].seconds and whole and modules[0].seconds > whole[0]:
        said = "the model's latency is longer than the step's: the step's is taken"
        quality.append(Quality("damaged_times", "warning", said))
    told = "forward passes of one step only, with the GPU waited for after each module"
    remedy = "Record the program, too:  sightline run -- PROGRAM"
    quality += [note_no_times(0), Quality("forward_only", "info", told, None, remedy)]
    # DeepSpeed rules off the end of its report.
    if not _ENDS.search(detail):
        quality.append(Quality("truncated", "warning", "the line that ends the report is missing"))
    quality += note_bad_lines(bad, "module of the model")
    model = _ENDS.split(detail, maxsplit=1)[0]
    if (left := model.count("(") - model.count(")")) and not bad:
        text = "brackets of the model do not match: modules are missing, or under another"
        quality.append(Quality("damaged_model", "warning", text, abs(left)))
    samples = Samples()
    for name, (value, unit) in totals.items():
        samples.add(name, value, 0, None, None, unit)
    imported = finish_import(source, trie, weights, quality, "DeepSpeed")
    imported.quality += samples.note_gaps()
    imported.tables["counters"] = samples.tables(None)["counters"]
    return imported


def _list_totals(summary: str) -> dict[str, tuple[float, str]]:
    """What the summary says of the step: value and unit by name, in s, FLOP/s and counts."""
    found = {}
    for name, number, prefix, unit in _SUMMARY.findall(summary):
        if not _SIZES.search(name):
            found[name.strip()] = (float(number) * _PREFIX[prefix], _UNITS[unit or None])
    return found


def _count_bad_totals(summary: str) -> int:
    """How many lines of the summary look like a total, and cannot be read."""
    told = summary.partition("Profile Summary at step")[2].partition("Aggregated Profile")[0]
    lines = told.splitlines()[1:]
    # Above them the words are explained: "number of parameters (params), …".
    return sum(_is_bad_total(line) for line in lines)


def _is_bad_total(line: str) -> bool:
    if _NAMELESS.match(line):
        return True
    is_read = _SUMMARY.match(line) or _EXPLAINS.search(line)
    return _OF_TOTAL.search(line) is not None and not is_read


def parse_modules(detail: str) -> tuple[list[_Module], int]:
    """The modules of the model as it is printed, each with its path and its latency.

    Also how many lines look like one, and cannot be read.
    """
    found: list[_Module] = []
    bad = 0
    open_at: list[tuple[int, str]] = []  # indentation and name of the modules around a line
    depth = 0  # of brackets: the model has no blank line in them
    for line in detail.splitlines():
        bad += depth > 0 and not line.strip()
        depth += line.count("(") - line.count(")") if found or _MODULE.match(line) else 0
        head = _MODULE.match(line)
        latency = _LATENCY.search(line)
        seconds = float(latency[1]) * _PREFIX[latency[2]] if latency else None
        if head is None:
            bad += bool(found and open_at and _PART.search(line))
            # The numbers of a module that contains others stand on the line below its name.
            if latency and found and found[-1].seconds is None:
                found[-1] = _Module(found[-1].path, seconds)
            else:
                bad += bool(found and _LOOKS.search(line))
            continue
        # A module without numbers in brackets of its own has them on the next line.
        bad += latency is None and bool(_LOOKS.search(head[4]))
        bad += line.count("% latency") > 1  # two lines in one
        indent = len(head[1])
        bad += bool(indent and open_at and not head[2])  # each but the top one has a name
        while open_at and open_at[-1][0] >= indent:
            open_at.pop()
        if (found and not open_at) or len(open_at) > _MAX_DEPTH:
            continue  # text behind the model
        name = f"{head[2]}: {head[3]}" if head[2] else head[3]
        open_at.append((indent, name))
        found.append(_Module(tuple(name for _, name in open_at), seconds))
    return found, bad


def find_own_times(modules: list[_Module], whole: float | None) -> dict[tuple[str, ...], float]:
    """Each module's time without its children's, in s.

    A module that is only a list has no forward, and lasts as long as its parts. The top one's time
    is at most the step's, which DeepSpeed measured itself.
    """
    within: defaultdict[tuple[str, ...], float] = defaultdict(float)
    own = {}
    for module in reversed(modules):  # children come behind their parents
        parts = within[module.path]
        seconds = parts if module.seconds is None else module.seconds
        if len(module.path) == 1 and whole is not None:
            seconds = min(seconds, whole)
        # What is negative comes of rounding to two decimals.
        if seconds > parts:
            own[module.path] = seconds - parts
        within[module.path[:-1]] += max(seconds, parts) if module.seconds is None else seconds
    return dict(reversed(own.items()))
