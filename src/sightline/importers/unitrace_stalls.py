"""Intel unitrace --stall-sampling: EU stall samples per kernel and instruction address.

Format: intel/pti-gpu, tools/unitrace: a title line per device, then CSV with the columns Kernel,
IP[Address], Active[Events] and one per stall. Names are padded with blanks.
"""

from __future__ import annotations

import csv
from functools import lru_cache

from sightline.errors import DamagedError
from sightline.importers._stacks import finish_import, note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.source import Source
from sightline.model.stack_trie import Frame, StackTrie
from sightline.model.stall_classes import classify_stall

IMPORTER = Importer(
    name="unitrace_stalls",
    label="Intel unitrace stall sampling (CSV)",
    strong=(rb"(?:^|\n)[ \t]*Kernel,[ \t]*IP\[Address\],[^\n]*\[Events\]",),
    weak=(),
    looks_like="CSV with the columns Kernel, IP[Address] and ...[Events]",
    suffixes=(".csv",),
    version=1,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows; the weight is `samples`. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    device, columns, bad = "GPU", [""], 0
    lines = read_text(source, quality).splitlines()
    try:
        for row in csv.reader(lines, skipinitialspace=True):
            cells = [cell.strip() for cell in row]
            if len(cells) == 1 and "Device" in cells[0]:
                device = cells[0].strip("= ").removesuffix(" Metrics")
            elif cells[:2] == ["Kernel", "IP[Address]"]:
                columns = cells
            elif len(cells) == len(columns) > 2:
                found = _row(trie, device, columns, cells)
                bad += found is None
                weights += found or []
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error
    quality += note_bad_lines(bad, "row of samples")
    return finish_import(source, trie, weights, quality, "unitrace")


def _row(
    trie: StackTrie, device: str, columns: list[str], cells: list[str]
) -> list[tuple[int | None, str, int, str]] | None:
    counts = "".join(cells[2:])
    if not counts.isascii() or not counts.isdecimal() or max(map(len, cells[2:])) >= 18:
        return None
    kernel = Frame("kernel", cells[0].strip('" ') or "[unknown kernel]")
    path = trie.number(Frame("device", device)), trie.number(kernel)
    place = trie.add_numbers((*path, trie.number(Frame("instruction", f"+0x{cells[1]}"))))
    return [
        (trie.add_below(place, *_list_reason_frames(column)), "samples", int(count), "exact")
        for column, count in zip(columns[2:], cells[2:], strict=True)
        if count.strip("0")
    ]


@lru_cache
def _list_reason_frames(column: str) -> tuple[Frame, Frame]:
    reason = column.removesuffix("[Events]").removesuffix("Stall").lower()
    return Frame("stall_class", classify_stall(reason)), Frame("stall_reason", reason)
