"""Folded (collapsed) stacks: what stackcollapse scripts, py-spy --format raw and iaprof write.

Format: brendangregg/FlameGraph, stackcollapse-*.pl; frames with `_[k] _[G] _[g]` after iaprof.
"""

from __future__ import annotations

from functools import cache

from sightline.importers._stacks import finish_import, note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.model.folded_text import parse_frames, split_line
from sightline.model.source import Source
from sightline.model.stack_trie import Frame, StackTrie
from sightline.redaction import redact_frame

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
    version=2,
    source="https://github.com/brendangregg/FlameGraph",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines; the weight is `samples`. Raises DamagedError where no line is a stack."""
    quality: list[Quality] = []
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    bad = 0

    @cache
    def number(layer: str, name: str) -> int:
        return trie.number(Frame(layer, name if options.keep_identity else redact_frame(name)))

    @cache
    def number_native(text: str) -> int:
        return number(*parse_frames(text)[0])

    for line in read_text(source, quality).split("\n"):
        if not line.strip() or line.startswith(("#", "//")):
            continue
        found = split_line(line)
        if found is None:
            bad += 1
            continue
        stack, count = found
        if "_[" in stack or stack.endswith(";"):
            frames = parse_frames(stack)
            on_device = any(layer == "kernel" for layer, _ in frames)
            path = [number(layer, name) for layer, name in frames]
        else:  # nothing but native frames, as most: each different text is looked at once
            on_device, path = False, [number_native(text) for text in stack.split(";")]
        # iaprof joins the CPU's stack by the kernel's address and the interval.
        weights.append(
            (trie.add_numbers(path), "samples", count, "window" if on_device else "exact")
        )
    quality += note_bad_lines(bad, "stack")
    return finish_import(source, trie, weights, quality, "folded stacks")
