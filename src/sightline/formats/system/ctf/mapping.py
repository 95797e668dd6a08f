"""Which events become rows of which tables: rules in YAML, ours and a site's.

docs/formats/ctf.md describes them. The first rule that a whole name fits decides; those of a file
`sightline-ctf.yaml` in the recording's folder come before ours.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.errors import InputError

SITE_FILE = "sightline-ctf.yaml"
_MOST_BYTES = 1 << 20
_LONGEST_NAME = 1024  # that patterns are tried on: some take the square of its length
_BUILT_IN = Path(__file__).parent / "mappings"
_SIDES = {
    **dict.fromkeys(("entry", "enter", "begin", "start", "issue"), "begin"),
    **dict.fromkeys(("exit", "end", "stop", "complete"), "end"),
    "mark": "mark",
}
# What is not declared in a table: ends of pairs are matched first.
TABLES = (
    "host_ops", "device_ops", "sched_events", "wakeups", "interrupts", "disk_requests", "counters",
    "page_faults", "packets", "threads", "mpi_events", "call_sums",
)  # fmt: skip
_KEYS = {"table", "kind", "side", "key", "time", "duration", "columns"}
_GROUP = re.compile(r"\{\w+\}")
# Fields as `name`, or of structures and variants within as `name.inner`.
_FIELD = re.compile(r"\$(\*|[A-Za-z_][\w.]*(?:\|[A-Za-z_][\w.]*)*)")


@dataclass(frozen=True)
class RowRule:
    """A row that an event becomes, or one side of a row."""

    table: str
    kind: str  # mark, range (has a duration) or pair (begin and end are two events)
    values: Mapping[
        str, Any
    ]  # of columns, and of side, key, time and duration where they are given


@dataclass(frozen=True)
class Rule:
    """Rows of the events whose whole name fits a pattern."""

    pattern: re.Pattern[str]
    rows: tuple[RowRule, ...]


@dataclass(frozen=True)
class EventRule:
    """A rule for one name: what the pattern found in it stands in the values."""

    rows: tuple[RowRule, ...] = ()
    fields: frozenset[str] = field(default_factory=frozenset)  # `*` for all


_MARK = RowRule(
    "host_ops",
    "mark",
    {
        "layer": "{layer}",
        "range_kind": "mark",
        "name": "{name}",
        "category": "{provider}",
        "payload": "$*",
    },
)


def load_rules(folder: Path) -> tuple[Rule, ...]:
    """The rules for a recording in a folder. Raises InputError where a site's are wrong."""
    own = folder / SITE_FILE
    return (*(_read_rules(own) if own.is_file() else ()), *_load_built_in())


@functools.cache
def _load_built_in() -> tuple[Rule, ...]:
    return tuple(rule for path in sorted(_BUILT_IN.glob("*.yaml")) for rule in _read_rules(path))


def find_rule(rules: tuple[Rule, ...], event: str) -> EventRule:
    """What becomes of events of a name. Those of no rule are marks with all their fields."""
    for rule in rules if len(event) <= _LONGEST_NAME else ():
        if (found := rule.pattern.fullmatch(event)) is not None:
            groups = {"event": event, **{k: v or "" for k, v in found.groupdict().items()}}
            return _fill(rule.rows, groups)
    provider, _, name = event.rpartition(":")
    # Events of the kernel have no provider.
    layer = "annotation" if provider else "os"
    return _fill((_MARK,), {"layer": layer, "name": name, "provider": provider})


def find_fields(value: Any) -> set[str]:
    """The fields that a value names; of one within others the outermost."""
    if isinstance(value, Mapping):
        return set().union(*map(find_fields, value.values()), set())
    return {path.partition(".")[0] for path in list_paths(value)}


def list_paths(value: Any) -> list[str]:
    """The fields that a text names, in its order: `name`, or `name.inner` of one within others."""
    found = _FIELD.fullmatch(value) if isinstance(value, str) else None
    return [] if found is None else found[1].split("|")


def _fill(rows: tuple[RowRule, ...], groups: Mapping[str, str]) -> EventRule:
    filled = []
    for row in rows:
        values = {name: _fill_value(value, groups) for name, value in row.values.items()}
        side = values.get("side")
        if isinstance(side, str):
            values["side"] = _SIDES.get(side, side)
        filled.append(RowRule(_fill_value(row.table, groups), row.kind, values))
    fields = set().union(*(find_fields(row.values) for row in filled), set())
    return EventRule(tuple(filled), frozenset(fields))


def _fill_value(value: Any, groups: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill_value(inner, groups) for key, inner in value.items()}
    if isinstance(value, str):
        for name, text in groups.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def _read_rules(path: Path) -> tuple[Rule, ...]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is larger than 1 MiB")
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(given, list):
            raise TypeError("it is not a list of rules")
        return tuple(_read_rule(one, number) for number, one in enumerate(given, 1))
    except (OSError, ValueError, TypeError, KeyError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise InputError(
            f"cannot read the mapping {path.name}",
            why=why,
            hint="docs/formats/ctf.md describes what it may hold.",
        ) from error


def _read_rule(given: Any, number: int) -> Rule:
    if not isinstance(given, dict) or not isinstance(given.get("event"), str):
        raise TypeError(f"rule {number} names no event")
    try:
        pattern = re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", given["event"]))
    except re.error as error:
        raise ValueError(f"the pattern of rule {number} is none: {error}") from error
    rows = given.get("rows", [])
    if not isinstance(rows, list):
        raise TypeError(f"the rows of rule {number} are not a list")
    return Rule(pattern, tuple(_read_row(row, number) for row in rows))


def _read_row(given: Any, number: int) -> RowRule:
    table = given.get("table") if isinstance(given, dict) else None
    if table not in TABLES and not (isinstance(table, str) and _GROUP.fullmatch(table)):
        raise ValueError(f"a row of rule {number} has no table of {', '.join(TABLES)}")
    unknown = set(given) - _KEYS
    if unknown:
        raise ValueError(f"a row of rule {number} has the unknown key {min(unknown)!r}")
    columns = given.get("columns", {})
    if not isinstance(columns, dict):
        raise TypeError(f"the columns of rule {number} are not a mapping")
    kind = "pair" if "side" in given else given.get("kind", "mark")
    if kind not in ("mark", "range", "pair") or (kind == "range" and "duration" not in given):
        raise ValueError(f"a row of rule {number} is neither a mark nor a range with a duration")
    values = {f"{name}": value for name, value in columns.items()}
    values |= {name: given[name] for name in ("side", "key", "time", "duration") if name in given}
    return RowRule(given["table"], kind, values)
