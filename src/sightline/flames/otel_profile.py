"""Stacks as a profile of OpenTelemetry: one request to a collector, or what a file of one holds.

open-telemetry/opentelemetry-proto v1.9, profiles/v1development/profiles.proto and
collector/profiles/v1development/profiles_service.proto: tables of what is referred to by its place,
of which the first entry of each means none; a profile for each weight. A request and a file
(ProfilesData) are the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sightline.core.protobuf import declare_messages
from sightline.flames.pprof import name_unit
from sightline.flames.stacks import Stacks

PATH = "/v1development/profiles"
LAYER, MATCH = "sightline.layer", "sightline.match"

_MESSAGES = declare_messages(
    """
Request: 1 resource_profiles []ResourceProfiles, 2 dictionary Dictionary
Dictionary: 1 mapping_table []Mapping, 2 location_table []Location, 3 function_table []Function,
    4 link_table []Link, 5 string_table []text, 6 attribute_table []KeyValueAndUnit,
    7 stack_table []Stack
ResourceProfiles: 1 resource Resource, 2 scope_profiles []ScopeProfiles
Resource: 1 attributes []KeyValue
KeyValue: 1 key text, 2 value AnyValue
AnyValue: 1 string_value text
ScopeProfiles: 1 scope Scope, 2 profiles []Profile
Scope: 1 name text
Profile: 1 sample_type ValueType, 2 samples []Sample, 3 time_unix_nano fixed64,
    4 duration_nano uint, 5 period_type ValueType, 6 period int, 7 profile_id bytes
ValueType: 1 type_strindex int, 2 unit_strindex int
Sample: 1 stack_index int, 2 attribute_indices [packed]int, 4 values [packed]int
Mapping: 4 filename_strindex int
Stack: 1 location_indices [packed]int
Location: 3 lines []Line, 4 attribute_indices [packed]int
Line: 1 function_index int
Function: 1 name_strindex int
Link: 1 trace_id bytes, 2 span_id bytes
KeyValueAndUnit: 1 key_strindex int, 2 value AnyValue, 3 unit_strindex int
"""
)


class _Texts:
    """Texts and attributes by their places in the dictionary's tables."""

    def __init__(self, dictionary: Any) -> None:
        self._dictionary = dictionary
        self._texts: dict[str, int] = {"": 0}
        self._attributes: dict[tuple[str, str], int] = {}
        dictionary.string_table.append("")

    def place(self, text: str) -> int:
        """Of a text."""
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._dictionary.string_table.append(text)
        return self._texts[text]

    def attribute(self, key: str, value: str) -> int:
        """Of a key with its value."""
        if (key, value) not in self._attributes:
            self._attributes[key, value] = len(self._attributes) + 1
            added = self._dictionary.attribute_table.add(key_strindex=self.place(key))
            added.value.string_value = value
        return self._attributes[key, value]


def write(
    stacks: Stacks, begin_ns: int, duration_ns: int, resource: Mapping[str, str] | None = None
) -> bytes:
    """A request with a profile for each weight; `resource`: what was profiled, by its attributes.

    `begin_ns`: since 1970. A sample has the grade of its match, a location its layer.
    """
    request = _MESSAGES["Request"]()
    dictionary = request.dictionary
    for table in ("mapping", "location", "function", "link", "attribute", "stack"):
        getattr(dictionary, f"{table}_table").add()
    texts = _Texts(dictionary)
    names = stacks.frames.sort("frame_id").select("layer", "name").rows()
    for number, (layer, name) in enumerate(names, 1):
        location = dictionary.location_table.add(attribute_indices=[texts.attribute(LAYER, layer)])
        location.lines.add(function_index=number)
        dictionary.function_table.add(name_strindex=texts.place(name))
    for frames in stacks.rows.get_column("frames").to_list():
        # Leaf first; place 0 means none.
        dictionary.stack_table.add(location_indices=[frame + 1 for frame in reversed(frames)])
    one = request.resource_profiles.add()
    for key, value in (resource or {}).items():
        one.resource.attributes.add(key=key).value.string_value = value
    scope = one.scope_profiles.add()
    scope.scope.name = "sightline"
    matches = [texts.attribute(MATCH, m) for m in stacks.rows.get_column("match").to_list()]
    for weight in stacks.weights:
        profile = scope.profiles.add(time_unix_nano=begin_ns, duration_nano=duration_ns, period=1)
        for kind in (profile.sample_type, profile.period_type):
            kind.type_strindex = texts.place(weight)
            kind.unit_strindex = texts.place(name_unit(weight))
        for place, (match, value) in enumerate(
            zip(matches, stacks.rows.get_column(weight).to_list(), strict=True), 1
        ):
            if value:
                profile.samples.add(stack_index=place, attribute_indices=[match], values=[value])
        told = f"{sorted((resource or {}).items())} {begin_ns} {weight}"
        profile.profile_id = hashlib.blake2b(told.encode(), digest_size=16).digest()
    return bytes(request.SerializeToString())
