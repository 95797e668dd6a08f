"""TAU's profiles: the time of each function, by call path where TAU recorded them.

Format: `profile.NODE.CONTEXT.THREAD`, a line for each function or call path (`main => solve`), as
TAU (TauProfiler's output, its ParaProf) and APEX write it; a folder's files are of one program, and
added up. No real profile was at hand: the lines are as the writers' and readers' sources show them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.core.redaction import redact_frame
from sightline.errors import DamagedError
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

IMPORTER = Importer(
    name="tau",
    label="TAU profile (profile.0.0.0)",
    strong=(
        rb"\A\d{1,9} templated_functions(?:_\w+)?\r?\n# Name Calls Subrs Excl Incl ",
        rb"\AFOLDER\n(?:[^\n]*\n)*profile\.\d+\.\d+\.\d+ ",
    ),
    weak=(),
    looks_like="a first line such as 12 templated_functions_MULTI_TIME, or a folder of such files",
    suffixes=(".0.0",),
    version=2,
    source="https://www.cs.uoregon.edu/research/tau/docs.php",
)

_FILE = re.compile(r"^profile\.\d+\.\d+\.\d+$")
_HEAD = re.compile(r"^(\d{1,9}) templated_functions(?:_MULTI)?_?(\w*)")
_LINE = re.compile(
    r'^"(?P<name>.*)" (?P<calls>\S+) (?P<below>\S+) (?P<own>\d[\d.]{0,40}(?:e[-+]?\d{1,2})?) '
    r'(?P<whole>\S+) \S+ *(?:GROUP="(?P<groups>[^"]*)")?'
)
# `solve(int) [{/x/solve.c} {12,1}-{30,2}]`; of Python and of samples, a line alone.
_PLACE = re.compile(r"^(.*?) ?\[\{([^{}]*)\} \{(\d{1,9})[^\]]*\]$")
# What was sampled within a function is a part of the function's own time.
_SAMPLED = ("[CONTEXT]", "[SAMPLE]", "[SUMMARY]", "[INTERMEDIATE]", "[UNWIND]")
_ARROW = " => "
_US = 1_000  # ns
_Path = tuple[str, ...]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all functions' own times. Raises DamagedError where none is there."""
    quality: list[Quality] = []
    files = _list_files(source.path)
    own = Counter[_Path]()
    python: set[str] = set()
    bad = 0
    for path in files:
        text = read_text(Source(path, source.given, source.on_read), quality)
        found, lost = _read_profile(text, python, source)
        own.update(found)
        bad += lost
    quality += note_bad_lines(bad, "functions of TAU")
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    for names, spent in own.items():
        frames = [_describe(name, name in python, options.keep_identity) for name in names]
        weights.append((trie.add(frames), "cpu_time_ns", spent, "exact"))
    if len(files) > 1:
        said = "threads were added up: the times are of all of them together"
        quality.append(Quality("threads_added_up", "info", said, len(files)))
    return finish_import(source, trie, weights, quality, "TAU")


def _list_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.iterdir() if _FILE.match(file.name))


def _read_profile(text: str, python: set[str], source: Source) -> tuple[Counter[_Path], int]:
    """Own times in ns by call path, of one thread; and how many lines are damaged.

    Functions of Python are added to `python`.
    """
    lines = text.splitlines()
    head = _HEAD.match(lines[0]) if lines else None
    if head is None:
        raise DamagedError(f"cannot read {source.given}", why="its first line counts no functions")
    if head[2] and "TIME" not in head[2].upper():
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has the metric {head[2]}, which is not a time",
            hint="Give the folder MULTI__TIME next to it.",
        )
    paths, flat, bad = Counter[_Path](), Counter[str](), 0
    for line in lines[2 : 2 + int(head[1])]:
        found = _LINE.match(line)
        if found is None:
            bad += 1
            continue
        names = tuple(name.strip() for name in found["name"].split(_ARROW))
        if any(word in found["name"] for word in _SAMPLED):
            continue
        spent = round(Decimal(found["own"]) * _US)
        if len(names) > 1:
            paths[names] += spent
        else:
            flat[names[0]] += spent
        if "PYTHON" in (found["groups"] or ""):
            python.update(names)
    return _unite(paths, flat), bad


def _unite(paths: Counter[_Path], flat: Counter[str]) -> Counter[_Path]:
    """Call paths, and of functions what their paths do not hold: all of it where there is none.

    Recorded paths may lack their upper part (TAU_CALLPATH_DEPTH), and the root has none of its own.
    """
    held = Counter[str]()
    for names, spent in paths.items():
        held[names[-1]] += spent
    # A path is rounded to 1 µs, or less: what that explains is no time of its own.
    rounding = Counter(names[-1] for names in paths)
    for name, spent in flat.items():
        left = spent - held[name]
        if left > rounding[name] * _US:
            paths[(name,)] += left
    return Counter(dict(_drop_empty(paths)))


def _drop_empty(paths: Counter[_Path]) -> Iterator[tuple[_Path, int]]:
    return ((names, spent) for names, spent in paths.items() if spent > 0)


def _describe(name: str, is_python: bool, keep_identity: bool) -> Frame:
    found = _PLACE.match(name)
    function, file, line = (found[1], found[2], int(found[3])) if found else (name, None, None)
    shown = function if keep_identity else redact_frame(function)
    return Frame("python" if is_python else "native", shown or name, file, line)
