"""AMD thread traces and PC samples, decoded: `code.json`, what each instruction cost.

Format: ROCm/rocprof-compute-viewer, and rocprofiler-sdk's thread trace decoder, version 3: a row
for each instruction, with its source line, how often waves ran it (Hit), and the cycles that they
spent there, waited there (Stall) and idled before it; of PC samples how many issued and how many
waited, by reason. A row that begins with `;` names a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sightline.errors import DamagedError
from sightline.importers._json import parse_json
from sightline.importers._stacks import finish_import, note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.source import Source
from sightline.model.stack_trie import Frame, StackTrie
from sightline.model.stall_classes import classify_stall

IMPORTER = Importer(
    name="rocprof_att",
    label="AMD thread trace or PC sampling, decoded (code.json)",
    strong=(rb'^\s*\{\s*"code"\s*:\s*\[\s*\[\s*"', rb'^\s*\{\s*"header"\s*:\s*\[?\s*"ISA'),
    weak=(),
    looks_like='JSON with "code": rows of instructions with their source, hits and stalls',
    suffixes=(".json", ".json.gz"),
    version=1,
    source="https://rocm.docs.amd.com/projects/rocprofiler-sdk",
)

# rocprofiler_pc_sampling_instruction_not_issued_reason_t, in order.
REASONS = (
    "none", "no_instruction_available", "alu_dependency", "waitcnt", "internal_instruction",
    "barrier_wait", "arbiter_not_win", "arbiter_win_ex_stall", "other_wait", "sleep_wait",
)  # fmt: skip
_ISA, _SOURCE, _ADDRESS, _HIT, _LATENCY, _STALL, _IDLE, _ISSUED, _STALLED, _REASONS = (
    0, 3, 5, 6, 7, 8, 9, 10, 11, 12,
)  # fmt: skip
_LEAST = _IDLE + 1
Weight = tuple[int | None, str, int, str]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all instructions; weights are `cycles`, `executions`, `samples`, `latency_samples`.

    Raises DamagedError where none carries a measurement.
    """
    quality: list[Quality] = []
    try:
        document = parse_json(read_text(source, quality), quality)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"its JSON is damaged ({error})"
        ) from error
    rows = document.get("code") if isinstance(document, dict) else None
    trie = StackTrie()
    weights: list[Weight] = []
    kernel, start, bad = trie.add([Frame("kernel", "[unknown kernel]")]), 0, 0
    places: dict[tuple[int | None, Any], int | None] = {}  # of a kernel and a source line
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, list) or len(row) < _LEAST or not isinstance(row[_ISA], str):
            bad += 1
        elif row[_ISA].startswith(";"):
            kernel = trie.add([Frame("kernel", _name_kernel(row))])
            start = _count(row[_ADDRESS])
        else:
            place = (kernel, row[_SOURCE] if isinstance(row[_SOURCE], str) else "")
            if place not in places:
                places[place] = trie.add_below(kernel, *_locate(place[1]))
            weights += _weigh(trie, trie.add_below(places[place], _name_offset(row, start)), row)
    quality += note_bad_lines(bad, "instruction")
    return finish_import(source, trie, weights, quality, "rocprofv3 thread trace")


def _name_kernel(row: list[Any]) -> str:
    """The name with types, which stands where others have their source line; else the symbol."""
    named = row[_SOURCE] if isinstance(row[_SOURCE], str) else ""
    return named or row[_ISA].lstrip("; ") or "[unknown kernel]"


def _locate(source: str) -> Iterator[Frame]:
    file, colon, line = source.rpartition(":")
    if colon and line.isdecimal() and len(line) < 10:
        yield Frame("gpu_file", file)
        yield Frame("gpu_line", f"{file.rsplit('/', 1)[-1]}:{line}")


def _name_offset(row: list[Any], start: int) -> Frame:
    offset = _count(row[_ADDRESS]) - start
    where = f"+0x{offset:x} " if offset >= 0 else ""
    return Frame("instruction", where + row[_ISA])


@lru_cache
def _list_reason_frames(reason: str) -> tuple[Frame, Frame]:
    """The class and the reason of a wait; of what is none, where the time went instead."""
    place = {"issuing": "issuing", "wave_issued": "issuing", "stalled": "other", "idle": "other"}
    return (
        Frame("stall_class", place.get(reason) or classify_stall(reason)),
        Frame("stall_reason", reason),
    )


def _weigh(trie: StackTrie, instruction: int | None, row: list[Any]) -> Iterator[Weight]:
    """What was measured of an instruction, by what its waves did there."""
    latency, stall = _count(row[_LATENCY]), _count(row[_STALL])
    cycles = {
        "issuing": max(0, latency - stall),
        "stalled": min(stall, latency) if latency else stall,
        "idle": _count(row[_IDLE]),
    }
    for what, count in cycles.items():
        if count:
            stack = trie.add_below(instruction, *_list_reason_frames(what))
            yield stack, "cycles", count, "exact"
    if hits := _count(row[_HIT]):
        yield instruction, "executions", hits, "exact"
    if len(row) <= _STALLED:
        return
    if issued := _count(row[_ISSUED]):
        stack = trie.add_below(instruction, *_list_reason_frames("wave_issued"))
        yield stack, "samples", issued, "exact"
    left = _count(row[_STALLED])
    reasons = row[_REASONS] if len(row) > _REASONS and isinstance(row[_REASONS], list) else []
    for reason, found in zip(REASONS, reasons, strict=False):
        count = min(_count(found), left)
        left -= count
        if count:
            yield from _wait(trie, instruction, reason, count)
    if left:
        yield from _wait(trie, instruction, "none", left)


def _wait(trie: StackTrie, instruction: int | None, reason: str, count: int) -> Iterator[Weight]:
    stack = trie.add_below(instruction, *_list_reason_frames(reason))
    yield stack, "samples", count, "exact"
    yield stack, "latency_samples", count, "exact"


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < 2**53 else 0
