"""What jax.profiler.device_memory_profile() gives: the live memory of all devices, by call stack.

A pprof profile (google/pprof, proto/profile.proto), mostly gzipped, with the values `allocations`
and `space`, and the labels `kind` (buffer or executable) and `device` (jaxlib, heap_profile.cc).
It is of one moment: each sample becomes an allocation that is not freed.
"""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.model.stack_trie import Frame, StackTrie, note_shortened
from sightline.core.redaction import redact_frame
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError

_NAMES = rb"2\x0ballocations2\x05count2\x05space2\x05bytes"  # the first texts of its table
IMPORTER = Importer(
    name="jax_memory",
    label="JAX device memory profile (pprof)",
    # Two sample types, of the first four texts; the texts come last, after all samples.
    strong=(_NAMES, rb"^\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04\x12"),
    weak=(),
    looks_like="a pprof profile with the values allocations and space",
    suffixes=(".prof", ".pb.gz", ".pb"),
    version=3,
    source="https://docs.jax.dev/en/latest/device_memory_profiling.html",
)

_MESSAGES = """
Profile: 1 sample_type []ValueType, 2 sample []Sample, 4 location []Location,
    5 function []Function, 6 string_table []bytes, 9 time_nanos int
ValueType: 1 type int, 2 unit int
Sample: 1 location_id [packed]uint, 2 value [packed]int, 3 label []Label
Label: 1 key int, 2 str int
Location: 1 id uint, 4 line []Line
Line: 1 function_id uint, 2 line int
Function: 1 id uint, 2 name int, 4 filename int
"""


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where it is no such profile, or not whole."""
    # Only here: which importer a file is for is asked without loading what reads it.
    from sightline.core.protobuf import (
        DamagedMessageError,
        declare_messages,
        decode_text,
        parse_message,
    )

    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES)
    try:
        profile = parse_message(declare_messages(_MESSAGES)["Profile"], data)
    except DamagedMessageError as error:
        raise DamagedError(
            f"cannot read {source.given}", why=damage or f"the profile is not whole ({error})"
        ) from error
    texts = [replace_surrogates(decode_text(text)) for text in profile.string_table]
    values = [_pick(texts, kind.type) for kind in profile.sample_type]
    if values != ["allocations", "space"]:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is a profile of {', '.join(values) or 'nothing'}, not of a device's memory",
            hint="jax.profiler.save_device_memory_profile('memory.prof')",
        )
    frames = _list_frames(profile, texts, keep_identity=options.keep_identity)
    trie = StackTrie()
    rows, bad = [], 0
    at = profile.time_nanos if 0 <= profile.time_nanos <= INT64_MAX else 0
    for sample in profile.sample:
        if len(sample.value) != 2 or not 0 <= sample.value[1] <= INT64_MAX:
            bad += 1
            continue
        count, space = sample.value
        if not space:
            continue
        labels = {_pick(texts, one.key): _pick(texts, one.str) for one in sample.label}
        # Leaf first; inlined calls are lines of one location, the innermost first.
        leaf_first = [frame for place in sample.location_id for frame in frames.get(place, ())]
        device = re.fullmatch(r"(\w+):(\d{1,6})", labels.get("device", ""))
        on_host = device is None or "cpu" in device[1].lower()
        rows.append(
            {
                "time_ns": at,
                "device_id": None if device is None or on_host else int(device[2]),
                "action": "alloc",
                "bytes": space,
                "memory_kind": "pageable" if on_host else "device",
                "name": labels.get("kind"),
                "stack_id": trie.add(reversed(leaf_first)),
                "other": json.dumps({"allocations": count}),
            }
        )
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="no sample of it holds memory")
    quality = note_shortened(trie)
    if lost := _count_lost(profile, len(texts), frames):
        text = "stack frames refer to functions or strings that the profile does not have"
        quality.append(Quality("missing_rows", "warning", text, lost))
    if bad:
        quality.append(Quality("damaged_entries", "warning", "samples could not be read", bad))
    events = pl.DataFrame(
        rows,
        schema_overrides={"device_id": pl.Int64, "bytes": pl.Int64, "stack_id": pl.Int64},
        infer_schema_length=None,
    )
    sums = pl.col("bytes").cum_sum().over("device_id", "memory_kind")
    tables = {**trie.tables(), "memory_events": events.with_columns(allocated_bytes=sums)}
    recording = Recording(tool="JAX device memory profile", clock_offset_ns=0, has_stacks=True)
    return Imported(tables, recording, quality)


def _pick(texts: list[str], number: int) -> str:
    return texts[number] if 0 <= number < len(texts) else ""


def _count_lost(profile: Any, texts: int, frames: dict[int, list[Frame]]) -> int:
    """How many numbers of texts, functions and places name none."""
    functions = {f.id for f in profile.function}
    names = [number for f in profile.function for number in (f.name, f.filename)]
    lines = [line.function_id for place in profile.location for line in place.line]
    places = [place for sample in profile.sample for place in sample.location_id]
    return (
        sum(not 0 <= number < texts for number in names)
        + sum(number not in functions for number in lines)
        + sum(place not in frames for place in places)
    )


def _list_frames(profile: Any, texts: list[str], *, keep_identity: bool) -> dict[int, list[Frame]]:
    """The frames of each location, the innermost first."""
    functions = {f.id: (_pick(texts, f.name), _pick(texts, f.filename)) for f in profile.function}
    found: dict[int, list[Frame]] = {}
    for location in profile.location:
        found[location.id] = []
        for line in location.line:
            name, file = functions.get(line.function_id, ("", ""))
            layer = "python" if re.search(r"\.pyx?$|^<.*>$", file) else "native"
            name = name if keep_identity else redact_frame(name)
            number = line.line if 0 < line.line <= INT64_MAX else None
            found[location.id].append(Frame(layer, name, file or None, number))
    return found
