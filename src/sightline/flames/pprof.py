"""The pprof format: gzipped protobuf, fields after google/pprof proto/profile.proto."""

from __future__ import annotations

import gzip

from sightline.core.protobuf import declare_messages
from sightline.flames.stacks import UNITS, Stacks

_MESSAGES = declare_messages(
    """
Profile: 1 sample_type []ValueType, 2 sample []Sample, 4 location []Location,
    5 function []Function, 6 string_table []text, 9 time_nanos int, 10 duration_nanos int,
    11 period_type ValueType, 12 period int
ValueType: 1 type int, 2 unit int
Sample: 1 location_id [packed]uint, 2 value [packed]int, 3 label []Label
Label: 1 key int, 2 str int
Location: 1 id uint, 4 line []Line
Line: 1 function_id uint
Function: 1 id uint, 2 name int, 4 filename int
"""
)


# As servers of profiles know them; go tool pprof knows both.
_UNITS = {"ns": "nanoseconds"}


def write(stacks: Stacks, begin_ns: int = 0, duration_ns: int = 0) -> bytes:
    """All weights as sample types; the grade of the match is a label of each sample.

    With `begin_ns` (since 1970) also when it was, for servers that keep profiles by their time:
    they want a period as well, which is one of the first weight.
    """
    profile = _MESSAGES["Profile"]()
    strings = {"": 0}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    weights = stacks.weights
    for w in weights:
        profile.sample_type.add(type=text(w), unit=text(name_unit(w)))
    if begin_ns:
        profile.time_nanos, profile.duration_nanos, profile.period = begin_ns, duration_ns, 1
        profile.period_type.type = text(weights[0])
        profile.period_type.unit = text(name_unit(weights[0]))
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


def name_unit(weight: str) -> str:
    """What a weight counts, as pprof's readers call it."""
    unit = UNITS.get(weight, "count")
    return _UNITS.get(unit, unit)
