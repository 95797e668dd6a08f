"""What the importers of stacks have in common: text of any encoding, and the finished import."""

from __future__ import annotations

from collections import Counter

import polars as pl

from sightline.errors import DamagedError
from sightline.model.declare import Imported, Quality, Recording
from sightline.model.source import WHOLE_BYTES, Source, read_intact
from sightline.model.stack_trie import StackTrie, make_weights, note_shortened
from sightline.units import INT64_MAX, format_bytes


def read_whole(source: Source, quality: list[Quality]) -> bytes:
    """All bytes, unpacked. Raises DamagedError where they are more than what is read whole."""
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has more than {format_bytes(WHOLE_BYTES)}, and is read whole",
        )
    if damage:
        quality.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
    return data


def read_text(source: Source, quality: list[Quality]) -> str:
    """The whole text; UTF-16 with its mark, else UTF-8 with what is none replaced."""
    data = read_whole(source, quality)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace").lstrip("\ufeff")
    return data.decode("utf-8-sig", errors="replace")


def note_bad_lines(count: int, what: str) -> list[Quality]:
    """The note on lines that could not be read, if there are any."""
    if not count:
        return []
    return [Quality("damaged_lines", "warning", f"lines that are not {what} were left out", count)]


def finish_import(
    source: Source,
    trie: StackTrie,
    weights: list[tuple[int | None, str, int, str]],
    quality: list[Quality],
    tool: str,
) -> Imported:
    """The import of stacks with weights. Raises DamagedError where there is none."""
    kept = [w for w in weights if w[0] is not None and 0 <= w[2] <= INT64_MAX]
    if not kept:
        raise DamagedError(f"cannot read {source.given}", why=f"there is no stack in it ({tool})")
    total = Counter[str]()
    for _, metric, value, _ in kept:
        total[metric] += value
    if max(total.values()) > INT64_MAX:  # a sum of them would be another number
        raise DamagedError(
            f"cannot read {source.given}", why="its weights add up to more than 64 bits"
        )
    beyond = sum(1 for w in weights if not 0 <= w[2] <= INT64_MAX)
    if beyond:
        text = "weights over 64 bits were left out, with their stacks"
        quality.append(Quality("damaged_weights", "warning", text, beyond))
    tables: dict[str, pl.DataFrame] = {**trie.tables(), "stack_weights": make_weights(kept)}
    quality += note_shortened(trie)
    return Imported(tables, Recording(tool=tool, clock_offset_ns=0), quality)
