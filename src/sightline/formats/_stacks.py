"""What the importers of stacks have in common: text of any encoding, and the finished import."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.model.stack_trie import (
    StackTrie,
    make_weights,
    note_shortened,
    tabulate_weights,
)
from sightline.core.text import encode_utf8
from sightline.core.units import INT64_MAX, format_bytes
from sightline.errors import DamagedError
from sightline.formats._text_damage import note_text_damage


def read_whole(source: Source, quality: list[Quality]) -> bytes:
    """All bytes, unpacked. Raises DamagedError where they are more than what is read whole."""
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has more than {format_bytes(WHOLE_BYTES)}, and must be read whole",
        )
    if damage:
        quality.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
    return data


def read_text(source: Source, quality: list[Quality]) -> str:
    """The whole text; UTF-16 with its mark, else UTF-8 with what is none replaced."""
    data = encode_utf8(read_whole(source, quality))
    quality += note_text_damage(data)
    return data.decode("utf-8-sig", errors="replace")


# What lines are, where the noun before its 'of', 'or' or 'with' is a plural, or a tool's name.
_SEVERAL = re.compile(r"(?:[\w']+ )*?[a-z]*[a-rt-z]s(?: (?:of|or|with) |$)|\w*\d")


def note_bad_lines(count: int, what: str) -> list[Quality]:
    """The note on lines that could not be read, if there are any."""
    if not count:
        return []
    thing = what if _SEVERAL.match(what) else f"an {what}" if what[0] in "aeiou" else f"a {what}"
    text = f"lines that could not be read as {thing} were left out"
    return [Quality("damaged_lines", "warning", text, count)]


def finish_import(
    source: Source,
    trie: StackTrie,
    weights: pl.DataFrame | list[tuple[int | None, str, int, str]],
    quality: list[Quality],
    tool: str,
) -> Imported:
    """The import of stacks with weights: stack_id, metric, value, match.

    Raises DamagedError where there is none.
    """
    given = weights if isinstance(weights, pl.DataFrame) else tabulate_weights(weights)
    is_held = pl.col("value").is_between(0, INT64_MAX)
    kept = given.filter(is_held, pl.col("stack_id").is_not_null())
    if kept.is_empty():
        raise DamagedError(f"cannot read {source.given}", why=f"there is no stack in it ({tool})")
    totals = kept.group_by("metric").agg(pl.col("value").cast(pl.Int128).sum())
    if totals.select(pl.col("value").max()).item() > INT64_MAX:  # their sum would be another number
        raise DamagedError(
            f"cannot read {source.given}", why="its weights add up to more than 64 bits"
        )
    beyond = given.height - given.filter(is_held).height
    if beyond:
        text = "weights over 64 bits were left out, with their stacks"
        quality.append(Quality("damaged_weights", "warning", text, beyond))
    tables: dict[str, pl.DataFrame] = {**trie.tables(), "stack_weights": make_weights(kept)}
    quality += note_shortened(trie)
    return Imported(tables, Recording(tool=tool, clock_offset_ns=0), quality)
