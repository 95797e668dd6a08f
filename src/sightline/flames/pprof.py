"""The pprof format: gzipped protobuf, fields after google/pprof proto/profile.proto."""

from __future__ import annotations

import gzip

from sightline.core.protobuf import declare_messages
from sightline.flames.stacks import UNITS, Stacks

_MESSAGES = declare_messages(
    """
Profile: 1 sample_type []ValueType, 2 sample []Sample, 4 location []Location,
    5 function []Function, 6 string_table []text
ValueType: 1 type int, 2 unit int
Sample: 1 location_id [packed]uint, 2 value [packed]int, 3 label []Label
Label: 1 key int, 2 str int
Location: 1 id uint, 4 line []Line
Line: 1 function_id uint
Function: 1 id uint, 2 name int, 4 filename int
"""
)


def write(stacks: Stacks) -> bytes:
    """All weights as sample types; the grade of the match is a label of each sample."""
    profile = _MESSAGES["Profile"]()
    strings = {"": 0}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    weights = stacks.weights
    for w in weights:
        profile.sample_type.add(type=text(w), unit=text(UNITS.get(w, "count")))
    match_key = text("match")
    for frames, match, *values in stacks.rows.select("frames", "match", *weights).rows():
        # Leaf first; location ids start at 1, since 0 means none.
        locations = [f + 1 for f in reversed(frames)]
        sample = profile.sample.add(location_id=locations, value=values)
        sample.label.add(key=match_key, str=text(match))
    names = stacks.frames.sort("frame_id").select("frame_id", "layer", "name").rows()
    for number, layer, name in names:
        profile.location.add(id=number + 1).line.add(function_id=number + 1)
        profile.function.add(id=number + 1, name=text(name), filename=text(layer))
    profile.string_table.extend(strings)
    return gzip.compress(profile.SerializeToString(), mtime=0)
