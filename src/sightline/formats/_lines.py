"""Text whose lines follow a pattern, as columns: what the readers of such logs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter

import polars as pl

from sightline._native import split_lines as split_natively
from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.core.text import encode_utf8
from sightline.formats._stacks import read_whole
from sightline.formats._text_damage import note_text_damage


@dataclass(frozen=True)
class Matched:
    """The lines of one pattern.

    rows: `line` (int64, from 0) and each field; those of kind int as int64, others as the row of
    their text in `texts`.
    """

    rows: pl.DataFrame
    texts: dict[str, pl.Series]

    def text(self, field: str) -> pl.Series:
        """The texts of a field, one for each line."""
        return self.texts[field].gather(self.rows.get_column(field)).alias(field)

    def add(self, others: pl.DataFrame) -> Matched:
        """The same with other lines at their places: the same columns, with texts as such."""
        return unite([self, code_texts(others.select(self.rows.columns))])


def code_texts(lines: pl.DataFrame) -> Matched:
    """Lines that were split otherwise: texts stand as such in their columns."""
    texts = {
        field: column for field, column in lines.to_dict().items() if column.dtype == pl.String
    }
    codes = [pl.int_range(pl.len(), dtype=pl.UInt32).alias(field) for field in texts]
    return Matched(lines.with_columns(codes), texts)


def unite(parts: Sequence[Matched]) -> Matched:
    """The lines of several patterns in their order; null where a line has no such field."""
    texts: dict[str, pl.Series] = {}
    rows = []
    for part in parts:
        moved = []
        for field, own in part.texts.items():
            known = texts.get(field, own.clear())
            moved.append((pl.col(field) + known.len()).cast(pl.UInt32))
            texts[field] = pl.concat([known, own])
        rows.append(part.rows.with_columns(moved))
    together = pl.concat(rows, how="diagonal")
    if not together.get_column("line").is_sorted():
        together = together.sort("line", maintain_order=True)
    return Matched(together, texts)


def read_lines(
    source: Source, quality: list[Quality], *patterns: str
) -> tuple[list[Matched], pl.DataFrame]:
    """What follows each pattern, and `line` and `text` of all other lines that are not blank.

    A pattern is a whole line, such as `{tid:int} {device:word} : {name:text}`. Kinds of fields:
    int (1 to 18 digits), word (ASCII letters, digits, _), number (characters of numbers, NaN and
    Inf), cell (no comma, no blank at its ends), text (up to where the next literal first comes),
    free (up to the first place from which the rest of the pattern fits), any (the same, perhaps
    empty, and not kept: `{:any}`). Doubled braces stand for one. Lines with other characters than
    printable ASCII and tabs are among the others.
    """
    return split_lines(read_utf8(source, quality), *patterns)


def read_utf8(source: Source, quality: list[Quality]) -> bytes:
    """The whole text as UTF-8, in which what is damaged stays as it is; without its mark."""
    data = encode_utf8(read_whole(source, quality))
    quality += note_text_damage(data)
    return data.removeprefix(b"\xef\xbb\xbf")


def split_lines(data: bytes, *patterns: str) -> tuple[list[Matched], pl.DataFrame]:
    """The same of bytes; those that are not UTF-8 are replaced."""
    found, rest = split_natively(data, [_parse(pattern) for pattern in patterns])
    matched = [
        Matched(
            pl.DataFrame(batch),
            {name: pl.DataFrame(texts).get_column("text") for name, texts in named.items()},
        )
        for batch, named in found
    ]
    # Python breaks lines at more than \n, which is why these were left.
    others = [
        (number, part)
        for number, line in pl.DataFrame(rest).iter_rows()
        for part in line.decode(errors="replace").splitlines()
        if part.strip()
    ]
    schema = {"line": pl.Int64, "text": pl.String}
    return matched, pl.DataFrame(others, schema=schema, orient="row")


def _parse(pattern: str) -> list[tuple[str, str, str]]:
    """The pattern's literals, each with the name and the kind of the field behind it."""
    parts: list[tuple[str, str, str]] = []
    literal = ""
    for text, name, kind, _ in Formatter().parse(pattern):
        literal += text
        if name is not None:  # a doubled brace ends a part, too
            parts.append((literal, name, kind or ""))
            literal = ""
    return [*parts, (literal, "", "")] if literal else parts
