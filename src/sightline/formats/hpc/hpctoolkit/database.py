"""HPCToolkit's database of version 4: contexts in meta.db, the values of all threads in profile.db.

Format: FORMATS.md, which HPCToolkit writes into each database. Read are the context tree and the
first profile, which has the sums over all threads.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sightline.core.model.source import WHOLE_BYTES
from sightline.core.model.stack_trie import MAX_DEPTH, Frame
from sightline.formats._text_damage import count_misspelt, is_rest

# Metrics of hpcrun by the weight that they are, the one that counts first: time of the thread's
# CPU before time that passed, all of the GPU's work before its kernels.
_WEIGHTS = {
    "cpu_time_ns": ("CPUTIME", "REALTIME", "WALLCLOCK"),
    "gpu_time_ns": ("GPUOP", "GKER"),
}
_UNITS = {"(sec)": 10**9, "(usec)": 10**3}
_MAGIC = b"HPCTOOLKIT"
_METRICS, _CONTEXTS = 0x30, 0x40  # where meta.db's header has the sections
_EXECUTION, _SUM = 2, 0  # a scope that holds all descendants; how threads are combined
_FUNCTION, _LINE = 0, 2  # lexical types; 1 is a loop, 3 an instruction
_CONTEXT_BYTES = 0x20
_TREE_BYTES = 0x10  # of the section's own header
_MOST_LEFT_OUT = 1_000  # ours: contexts for each that is kept
_MOST = 1e12  # s or µs: what no program takes
_ON_GPU = "<gpu "  # <gpu kernel>, <gpu copy>: what is below them ran there


def choose_metrics(names: dict[str, int]) -> dict[str, tuple[int, int]]:
    """For each weight the metric's number, of those by their names, and what one of it is in ns."""
    chosen = {}
    for weight, wanted in _WEIGHTS.items():
        for name in wanted:
            known = (
                (names[full], _UNITS[unit])
                for unit in _UNITS
                if (full := f"{name} {unit}") in names
            )
            if weight not in chosen and (first := next(known, None)):
                chosen[weight] = first
    return chosen


@dataclass(frozen=True)
class _Data:
    """A file's bytes, with its numbers and texts by their places."""

    data: bytes

    def number(self, form: str, at: int) -> int:
        """An integer at a place. Raises ValueError where the file ends before it."""
        try:
            return int(struct.unpack_from(f"<{form}", self.data, at)[0])
        except struct.error as error:
            raise ValueError(f"nothing is at byte {at}") from error

    def text(self, at: int) -> str:
        """The text that ends with a NUL."""
        end = self.data.find(b"\0", at)
        if not 0 < at < len(self.data) or end < 0:
            raise ValueError(f"no text is at byte {at}")
        return self.data[at:end].decode("utf-8", "replace")


class _Path(NamedTuple):
    """A call path, linked: as tuples, paths would take the square of their depth."""

    frame: Frame
    above: _Path | None = None
    depth: int = 1

    def frames(self) -> tuple[Frame, ...]:
        """From the root on."""
        found: list[Frame] = []
        at: _Path | None = self
        while at is not None:
            found.append(at.frame)
            at = at.above
        return tuple(reversed(found))


class _Context(NamedTuple):
    number: int
    parent: int
    path: _Path


def read_database(
    folder: Path, odd: Counter[str] | None = None
) -> Iterator[tuple[str, tuple[Frame, ...], float]]:
    """(weight, frames, ns of the context itself). Raises ValueError where it is damaged.

    What contradicts itself in a database that can be read is counted in `odd`.
    """
    odd = Counter() if odd is None else odd
    meta = _open(folder / "meta.db", b"meta")
    contexts = list(_list_contexts(meta, odd))
    profile = _open(folder / "profile.db", b"prof")
    _check_sums(profile, _list_metrics(meta), contexts, odd)
    _check_metrics(meta, odd)
    # They are numbered in a row, but for those that were left out.
    most = _MOST_LEFT_OUT * (len(contexts) + 1)
    odd["contexts with ids out of range"] += sum(one.number > most for one in contexts)
    for weight, (metric, scale) in choose_metrics(_name_metrics(meta)).items():
        inclusive = _read_sums(profile, metric)
        within: defaultdict[int, float] = defaultdict(float)
        for context in contexts:
            within[context.parent] += inclusive.get(context.number, 0.0)
        for context in contexts:
            whole = inclusive.get(context.number, 0.0)
            own = (whole - within[context.number]) * scale
            # A sum is never less than its parts, but for digits beyond the 12th.
            odd["sums that are less than their parts"] += own < -abs(whole) * scale * 1e-9 - 0.5
            # What is left of a difference of sums: no time, but digits beyond the 15th.
            if own > 0.5 and own > abs(whole) * scale * 1e-12:
                yield weight, context.path.frames(), own


def _open(path: Path, form: bytes) -> _Data:
    if path.stat().st_size > WHOLE_BYTES:
        raise ValueError(f"{path.name} is larger than what is read whole")
    data = path.read_bytes()
    if data[:14] != _MAGIC + form or data[14:15] != b"\x04":
        raise ValueError(f"{path.name} is not of HPCToolkit's version 4")
    return _Data(data)


def _name_metrics(meta: _Data) -> dict[str, int]:
    """The numbers of sums over all threads and all that a context contains, by metrics' names."""
    return {
        name: number
        for name, scope, formula, combine, number in _list_summaries(meta)
        if (scope, formula, combine) == (_EXECUTION, "$$", _SUM)
    }


def _list_metrics(meta: _Data) -> set[int]:
    """The numbers of all values that a context of the summary may have."""
    return {summary[4] for summary in _list_summaries(meta)}


def _list_summaries(meta: _Data) -> Iterator[tuple[str, int, str, int, int]]:
    """A metric's name, and scope, formula, combination and number of each of its summaries."""
    at = meta.number("Q", _METRICS + 8)
    first, count, size = meta.number("Q", at), meta.number("I", at + 8), meta.number("B", at + 0xC)
    step = meta.number("B", at + 0xE)
    for metric in range(first, first + min(count, len(meta.data)) * size, max(size, 1)):
        name = meta.text(meta.number("Q", metric))
        summaries, n = meta.number("Q", metric + 0x10), meta.number("H", metric + 0x1A)
        for summary in range(summaries, summaries + n * step, max(step, 1)):
            scope = meta.number("B", meta.number("Q", summary) + 8)
            formula = meta.text(meta.number("Q", summary + 8))
            combine = meta.number("B", summary + 0x10)
            yield name, scope, formula, combine, meta.number("H", summary + 0x12)


def _list_contexts(meta: _Data, odd: Counter[str]) -> Iterator[_Context]:
    """All contexts, each with the functions around it and the lines that they were at.

    They fill their section: bytes of it that no context leads to are counted in `odd`.
    """
    at = meta.number("Q", _CONTEXTS + 8)
    entries, count, size = (
        meta.number("Q", at),
        meta.number("H", at + 8),
        meta.number("B", at + 0xA),
    )
    # Each context takes place in the file: more than fit are a circle.
    left = len(meta.data) // _CONTEXT_BYTES
    todo: list[tuple[int, int, int, _Path]] = []
    for entry in range(entries, entries + count * size, max(size, 1)):
        number = meta.number("I", entry + 0x10)
        name = meta.text(meta.number("Q", entry + 0x18))
        path = _Path(Frame("native", f"<{name}>"))
        yield _Context(number, 0, path)
        todo.append((meta.number("Q", entry + 8), meta.number("Q", entry), number, path))
    unread = meta.number("Q", _CONTEXTS) - _TREE_BYTES - count * size
    while todo:
        place, length, parent, path = todo.pop()
        end = place + length
        unread -= length
        while place < end:
            left -= 1
            if left < 0:
                raise ValueError("its contexts contain themselves")
            number = meta.number("I", place + 0x10)
            words = meta.number("B", place + 0x17)
            own = _extend(meta, place, path)
            yield _Context(number, parent, own)
            inner = meta.number("Q", place)
            if inner:
                todo.append((meta.number("Q", place + 8), inner, number, own))
            place += _CONTEXT_BYTES + 8 * words
    odd["contexts that nothing refers to"] += max(unread, 0) // _CONTEXT_BYTES


def _extend(meta: _Data, place: int, path: _Path) -> _Path:
    """The path of a context: a function is one more, a line says where the last one was.

    What is deeper than a stack can be is told of where that ends.
    """
    flags, kind = meta.number("B", place + 0x14), meta.number("B", place + 0x16)
    at = place + _CONTEXT_BYTES
    function = file = line = 0
    if flags & 1:
        function, at = meta.number("Q", at), at + 8
    if flags & 2:
        file, line = meta.number("Q", at), meta.number("I", at + 8)
    if kind == _FUNCTION and path.depth < MAX_DEPTH:
        return _Path(_describe_function(meta, function, path.frame), path, path.depth + 1)
    if kind == _LINE and file and path.frame.layer == "native":
        here = path.frame._replace(file=_read_path(meta, file), line=line or None)
        return path._replace(frame=here)
    return path


def _describe_function(meta: _Data, at: int, above: Frame) -> Frame:
    layer = "native"
    if above.layer in ("kernel", "gpu_line"):
        layer = "gpu_line"
    elif above.function.startswith(_ON_GPU):
        layer = "kernel"
    if not at:
        return Frame(layer, "<unknown function>")
    name, module, file = (meta.number("Q", at + offset) for offset in (0, 8, 0x18))
    binary = _read_path(meta, module) if module else None
    offset = meta.number("Q", at + 0x10)
    text = meta.text(name) if name else f"<unknown function> {offset:#x}"
    known = _read_path(meta, file) if file else "["
    # A module in brackets stands for a file that is not known.
    return Frame(layer, text, None if known.startswith(("[", "<")) else known, None, binary)


def _read_path(meta: _Data, at: int) -> str:
    """The path of a module or source file: behind their flags."""
    return meta.text(meta.number("Q", at + 8))


_Places = list[tuple[int, int]]


def _read_values(profile: _Data) -> tuple[list[tuple[int, float]], _Places]:
    """Metric and value pairs of the first profile, and of each context where its pairs begin."""
    at = profile.number("Q", profile.number("Q", 0x18))
    count, values = profile.number("Q", at), profile.number("Q", at + 8)
    contexts, indices = profile.number("I", at + 0x10), profile.number("Q", at + 0x18)
    data = profile.data
    if values + 10 * count > len(data) or indices + 12 * contexts > len(data):
        raise ValueError("profile.db ends before its values")
    pairs = list(struct.iter_unpack("<Hd", data[values : values + 10 * count]))
    return pairs, list(struct.iter_unpack("<IQ", data[indices : indices + 12 * contexts]))


def _check_sums(
    profile: _Data, metrics: set[int], contexts: list[_Context], odd: Counter[str]
) -> None:
    """Count what FORMATS.md rules out: metrics that meta.db does not have, another order.

    Contexts that meta.db does not have are no damage: databases of hpcprof have some. Those without
    a value, of their own or below, hpcprof leaves out.
    """
    pairs, places = _read_values(profile)
    numbers = [number for number, _ in places]
    starts = [start for _, start in places]
    odd["contexts out of order"] += sum(b <= a for a, b in pairwise(numbers))
    odd["values out of order"] += sum(b < a for a, b in pairwise([0, *starts, len(pairs)]))
    odd["values of no context"] += bool(starts) and starts[0] != 0
    odd["metrics that meta.db does not have"] += sum(n not in metrics for n, _ in pairs)
    odd["values that are none"] += sum(not 0 < value < _MOST for _, value in pairs)
    has_more = {*numbers, *(one.parent for one in contexts)}
    odd["contexts without a value"] += sum(one.number not in has_more for one in contexts)


def _check_metrics(meta: _Data, odd: Counter[str]) -> None:
    """Count metrics that are read, whose name is damaged or which have no sum."""
    listed = {summary[0] for summary in _list_summaries(meta)}
    wanted = {f"{name} {unit}" for names in _WEIGHTS.values() for name in names for unit in _UNITS}
    odd["metrics whose names are damaged"] += count_misspelt(listed, wanted) + sum(
        not name.isprintable() or any(is_rest(name, known) for known in wanted)
        for name in listed - wanted
    )
    odd["metrics without a sum"] += len(listed & wanted - {*_name_metrics(meta)})


def _read_sums(profile: _Data, metric: int) -> dict[int, float]:
    """The metric's value of each context, summed over all threads: the first profile."""
    pairs, places = _read_values(profile)
    count = len(pairs)
    ends = [start for _, start in places[1:]] + [count]
    sums = {}
    for (context, start), end in zip(places, ends, strict=True):
        for number, value in pairs[start:end]:
            if number == metric and 0 <= value < _MOST:
                sums[context] = value
    return sums
