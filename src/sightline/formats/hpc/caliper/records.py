"""Caliper's records, whichever form holds them: where they were taken, and what was measured.

Formats: Caliper's C++ sources (CsvWriter, JsonSplitFormatter), its Python package caliper-reader.
A `.cali` file is a forest of nodes, each an attribute with a value; a snapshot (`ctx`) refers to
the nodes that it was taken in, and has values of its own. Attributes are nodes, too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from sightline.formats._text_damage import count_misspelt

# Properties of an attribute (caliper/common/cali_types.h).
_AS_VALUE, _SKIP_EVENTS, _HIDDEN, _NESTED, _GLOBAL = 1, 64, 128, 256, 512
# Nodes that every file has without naming them (caliper/common/Node): types and three attributes.
_NAME, _PROPERTIES, _FIRST_FREE = 8, 10, 12
# The measurements that are read, behind their operators, and the kernel that one is of.
MEASURED = {
    "time.duration.ns", "time.duration", "time.inclusive.duration.ns", "time.inclusive.duration",
    "cupti.activity.duration", "rocm.activity.duration", "cupti.kernel.name", "rocm.kernel.name",
}  # fmt: skip
_UNITS = ("attribute.unit", "time.unit", "cali.attribute.unit")
MAX_DEPTH = 1_024
_MOST = 10**30  # beyond all measurements
_MOST_LACKING = 3  # ours: snapshots without a value are usual where there are more
_OWN = ("cali.attribute", "cali.caliper", "cali.event", "event.")  # what Caliper says of itself


@dataclass
class Record:
    """One snapshot: (attribute, value) of the regions around it, outermost first; measurements.

    `about` is what else is known of it: a rank, the address that was sampled, a kernel's name.
    """

    path: list[tuple[str, str]] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    values: dict[str, Decimal] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)  # attributes whose values here are texts


@dataclass
class Profile:
    """All records, the unit of each measurement that says it, and how many lines were damaged."""

    records: list[Record] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    bad: int = 0


@dataclass(frozen=True)
class _Node:
    attribute: int
    text: str
    parent: int | None


def parse_lines(text: str) -> Profile:
    """The records of a `.cali` file."""
    nodes: dict[int, _Node] = {}
    nodes |= {_NAME: _Node(_NAME, "cali.attribute.name", None)}
    profile, snapshots = Profile(), []
    for line in text.splitlines():
        fields = _split_fields(line)
        kind = fields.get("__rec", [""])[0]
        profile.bad += line.count("__rec=") > 1  # two lines in one
        profile.bad += bool(kind) and not all(fields.values())  # a field without a value
        try:
            if kind == "node":
                parent = int(fields["parent"][0]) if "parent" in fields else None
                node = _Node(int(fields["attr"][0]), fields["data"][0], parent)
                nodes[int(fields["id"][0])] = node
                # What an attribute holds is said by the nodes above it: each has one.
                profile.bad += node.attribute == _NAME and parent is None
            elif kind == "ctx":
                snapshots.append(fields)
            elif kind != "globals" and line.strip():
                profile.bad += 1
        except (KeyError, IndexError, ValueError):
            profile.bad += 1
    attributes = _Attributes(nodes)
    profile.bad += _count_odd_nodes(nodes)
    lacking = sum("attr" not in fields for fields in snapshots)
    if lacking <= _MOST_LACKING and 2 * lacking < len(snapshots):
        profile.bad += lacking
    for fields in snapshots:
        record = attributes.expand(fields)
        profile.bad += record is None
        profile.records += [record] if record else []
    profile.bad += _count_odd(profile.records)
    profile.units = attributes.units
    return profile


def _count_odd_nodes(nodes: dict[int, _Node]) -> int:
    """How many nodes are of no attribute that is there, or have properties that are no number."""
    named = {n.text.split("#")[-1] for n in nodes.values() if n.attribute == _NAME}
    return count_misspelt(named, MEASURED) + sum(
        (node.attribute not in nodes and not 0 <= node.attribute < _FIRST_FREE)
        or (node.attribute == _PROPERTIES and not node.text.isdecimal())
        for node in nodes.values()
    )


def _count_odd(records: list[Record]) -> int:
    """How many values are texts of an attribute that has numbers in most records."""
    numbers = Counter(name for record in records for name in record.values)
    texts = Counter(name for record in records for name in record.told)
    return sum(
        count for name, count in texts.items() if count < numbers[name] or _TIMES.search(name)
    )


# Measurements that are numbers, whatever stands there.
_TIMES = re.compile(r"(?:^|#|\.)(?:time|count|duration|offset)(?:\.|$)")


class _Attributes:
    """What the nodes say of attributes: their names, properties and units."""

    def __init__(self, nodes: dict[int, _Node]) -> None:
        self._nodes = nodes
        self._known: dict[int, tuple[str, int]] = {}
        self.units: dict[str, str] = {}
        self.is_nested = any(
            self.describe(a)[1] & _NESTED for a in {n.attribute for n in nodes.values()}
        )

    def describe(self, number: int) -> tuple[str, int]:
        """An attribute's name and properties; one that is missing is hidden."""
        if number not in self._known:
            node = self._nodes.get(number)
            if node is None or node.attribute != _NAME:
                self._known[number] = ("", _HIDDEN)
            else:
                self._known[number] = (node.text, self._find_properties(node))
        return self._known[number]

    def _find_properties(self, node: _Node) -> int:
        found = 0
        for above in self._walk(node.parent):
            if above.attribute == _PROPERTIES and not found:
                found = int(above.text) if above.text.isdecimal() else _HIDDEN
            elif above.attribute > _FIRST_FREE:
                unit = self._nodes.get(above.attribute)
                if unit is not None and unit.attribute == _NAME and unit.text in _UNITS:
                    self.units[node.text] = above.text
        return found

    def _walk(self, number: int | None) -> Iterator[_Node]:
        """A node and all above it; a damaged file may have a circle."""
        for _ in range(MAX_DEPTH):
            node = None if number is None else self._nodes.get(number)
            if node is None:
                return
            yield node
            number = node.parent

    def expand(self, fields: dict[str, list[str]]) -> Record | None:
        """A snapshot; None where it refers to what is not there."""
        record = Record()
        try:
            for reference in fields.get("ref", []):
                if int(reference) not in self._nodes:
                    return None
                self._add_context(record, int(reference))
            numbers, data = fields.get("attr", []), fields.get("data", [])
            if len(numbers) != len(data):
                return None
            for number, text in zip(numbers, data, strict=True):
                name, _ = self.describe(int(number))
                if not name:  # of an attribute that no node describes
                    return None
                value = read_decimal(text)
                if value is None or text.endswith("."):  # a number that is cut off
                    record.about[name] = text
                    record.told.append(name)
                else:
                    record.values[name] = value
        except ValueError:
            return None
        return record

    def _add_context(self, record: Record, number: int) -> None:
        found = []
        for node in self._walk(number):
            name, properties = self.describe(node.attribute)
            if properties & (_HIDDEN | _GLOBAL | _SKIP_EVENTS) or name.startswith(_OWN):
                continue
            # Files before Caliper 2 do not say which attributes nest: all of them do.
            if properties & _NESTED or (not self.is_nested and name) or "callpath" in name:
                found.append((name, node.text))
            else:
                record.about.setdefault(name, node.text)
        record.path += reversed(found)


def _split_fields(line: str) -> dict[str, list[str]]:
    r"""`__rec=ctx,ref=3=4,data=a\,b` as names with their values; a backslash keeps what follows."""
    if "\\" not in line:
        pairs = (entry.split("=") for entry in line.strip().split(","))
        return {name: values for name, *values in pairs}
    fields: list[list[str]] = [[""]]
    characters = iter(line.strip())
    for character in characters:
        if character == "\\":
            fields[-1][-1] += next(characters, "")
        elif character == ",":
            fields.append([""])
        elif character == "=":
            fields[-1].append("")
        else:
            fields[-1][-1] += character
    return {name: values for name, *values in fields}


def parse_split(document: Any) -> Profile:
    """The records of Caliper's json-split: rows of values, and of numbers of nodes."""
    profile = Profile()
    columns = [str(name) for name in document["columns"]]
    nodes = [node for node in document["nodes"] if isinstance(node, dict)]
    told = document.get("column_metadata", [])
    is_value = [isinstance(one, dict) and bool(one.get("is_value")) for one in told]
    is_value += [False] * (len(columns) - len(is_value))
    nested = {str(n["column"]) for n in nodes if n.get("parent") is not None} | {"path"}
    for name, one in zip(columns, told, strict=False):
        known = one if isinstance(one, dict) else {}
        unit = next((known[key] for key in _UNITS if isinstance(known.get(key), str)), None)
        if unit:
            profile.units[name] = unit
    places = [place for place, measured in enumerate(is_value[: len(columns)]) if not measured]
    measured = [place for place in range(len(columns)) if place not in places]
    # Rows that were taken in the same places are added up before anything is made of them.
    sums: dict[tuple[int | None, ...], list[int | Decimal | None]] = {}
    for row in document["data"]:
        if not isinstance(row, list) or len(row) != len(columns):
            profile.bad += 1
            continue
        key = tuple([row[place] if type(row[place]) is int else None for place in places])
        found = sums.setdefault(key, [None] * len(measured))
        for number, place in enumerate(measured):
            cell = row[place]
            value = cell if type(cell) is int and abs(cell) < _MOST else read_decimal(cell)
            if value is not None:
                before = found[number]
                found[number] = value if before is None else before + value
    for key, found in sums.items():
        values = zip((columns[place] for place in measured), found, strict=True)
        record = Record(values={name: Decimal(v) for name, v in values if v is not None})
        for name, cell in zip((columns[place] for place in places), key, strict=True):
            if cell is None or not 0 <= cell < len(nodes):
                continue
            labels = _list_labels(nodes, cell)
            if name in nested:
                record.path += [(name, label) for label in labels]
            else:
                record.about[name] = labels[-1]
        profile.records.append(record)
    return profile


def _list_labels(nodes: list[Any], number: int | None) -> list[str]:
    found: list[str] = []
    while type(number) is int and 0 <= number < len(nodes) and len(found) < MAX_DEPTH:
        found.append(str(nodes[number]["label"]))
        number = nodes[number].get("parent")
    return found[::-1]


def parse_json(text: str) -> Profile:
    """The records of a JSON document. Raises ValueError and its like where it is none."""
    return parse_split(json.loads(text, parse_float=Decimal))


def read_decimal(value: Any) -> Decimal | None:
    """A number, exactly as written; None for what is none, or is beyond all measurements."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _MOST else None
