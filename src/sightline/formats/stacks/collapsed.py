"""Folded (collapsed) stacks: what stackcollapse scripts, py-spy --format raw and iaprof write.

Format: brendangregg/FlameGraph, stackcollapse-*.pl; frames with `_[k] _[G] _[g]` after iaprof.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl

from sightline._native import split_folded
from sightline.core.cxx_names import demangle
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.folded_text import parse_frames, split_line
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie, tabulate_weights
from sightline.core.redaction import redact_frame
from sightline.formats._lines import read_utf8
from sightline.formats._stacks import finish_import, note_bad_lines

IMPORTER = Importer(
    name="collapsed",
    label="Folded stacks (flamegraph.pl, py-spy raw, iaprof)",
    strong=(
        # Not what begins as JSON does: an object with a key, a list of objects, lists or texts.
        rb"^(?!\s*(?:\{\s*[\"}]|\[\s*[\[{\"]))"
        rb"(?:(?:#|//)[^\n]*\n)*[^\n;\x00]+;[^\n\x00]* [0-9]+[ \t]*\r?(?:\n|$)",
    ),
    weak=(
        rb"^(?:\xff\xfe[^\n]+;\x00|\xfe\xff[^\n]+\x00;)",
        rb"^(?!\s*[\[{]\s*[\[{\"}])(?:[^\n;\x00]+;){200}",  # a stack that is longer than the head
    ),
    looks_like="lines of 'frame;frame;frame count'",
    suffixes=(".folded", ".collapsed", ".folded.gz", ".collapsed.gz"),
    version=7,
    source="https://github.com/brendangregg/FlameGraph",
)


_JOINED = re.compile(rb".*\S \d{1,18}([^\d\s].*)", re.DOTALL)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines; the weight is `samples`. Raises DamagedError where no line is a stack."""
    quality: list[Quality] = []
    trie = StackTrie()

    @cache
    def number(layer: str, name: str) -> int:
        name = demangle(name)
        return trie.number(Frame(layer, name if options.keep_identity else redact_frame(name)))

    lines, frames, texts, rest = split_folded(read_utf8(source, quality))
    names = pl.DataFrame(texts).get_column("text")
    numbers = [number(*parse_frames(name.decode(errors="replace"))[0]) for name in names]
    own = pl.Series(numbers, dtype=pl.Int64).gather(pl.DataFrame(frames).get_column("frame"))
    counted = pl.DataFrame(lines)
    weights = counted.select(
        trie.add_paths(own, counted.get_column("length")),
        metric=pl.lit("samples"),
        value="count",
        match=pl.lit("exact"),
    )
    roots = _list_roots(names, pl.DataFrame(frames).get_column("frame"), counted)
    roots |= {line.partition(b";")[0] for line in rest}
    bad = 0
    if joined := _count_joined(names, roots):
        text = "frames are the end of a line, its count and the beginning of the next line"
        quality.append(Quality("joined_lines", "warning", text, joined))
    others: list[tuple[int | None, str, int, str]] = []
    for line in rest:
        text = line.decode(errors="replace")
        if found := split_line(text):
            path = parse_frames(found[0])
            # iaprof joins the CPU's stack by the kernel's address and the interval.
            match = "window" if any(layer == "kernel" for layer, _ in path) else "exact"
            stack = trie.add_numbers([number(*frame) for frame in path])
            others.append((stack, "samples", found[1], match))
        elif text.strip():
            bad += 1
    if others:
        weights = pl.concat([weights, tabulate_weights(others)], how="vertical_relaxed")
    quality += note_bad_lines(bad, "stack")
    return finish_import(source, trie, weights, quality, "folded stacks")


def _list_roots(names: pl.Series, frames: pl.Series, lines: pl.DataFrame) -> set[bytes]:
    """The first frames of all lines."""
    length = lines.get_column("length")
    first = (length.cum_sum() - length).filter(length > 0)
    return set(names.gather(frames.gather(first).unique()))


def _count_joined(names: pl.Series, roots: set[bytes]) -> int:
    """How many frames are a line's last one, its count and the next line's first: `b 3main`."""
    ends = (found[1] for name in names if (found := _JOINED.fullmatch(name)) is not None)
    return sum(end in roots for end in ends)
