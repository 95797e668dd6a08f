"""Metadata of CTF 2 that sightline writes, held against what the specification demands.

babeltrace2 refuses a property that the specification does not have as well as one that is missing
(CTF2-SPEC-2.0, 5; babeltrace 2.1, plugins/ctf/common/src/metadata/json/val-req.cpp): so do these
rules, which are written from both and share nothing with the writer or our reader.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.views.exports import ctf2
from support.simulated import simulated

Check = Callable[[Any], None]


class RefusedError(Exception):
    pass


def need(holds: object, why: str) -> None:
    if not holds:
        raise RefusedError(why)


def is_a(kind: type, *allowed: Any) -> Check:
    def check(value: Any) -> None:
        need(type(value) is kind and (not allowed or value in allowed), f"{value!r}")

    return check


text, number = is_a(str), is_a(int)


def natural(value: Any) -> None:
    need(type(value) is int and value >= 0, f"{value!r}")


def alignment(value: Any) -> None:
    need(type(value) is int and value > 0 and not value & (value - 1), f"{value!r}")


def check_object(value: Any, properties: dict[str, Check], required: str = "") -> None:
    """An object with these properties, no others, of which some must be there."""
    need(type(value) is dict, f"{value!r} is not an object")
    missing = set(required.split()) - set(value)
    unknown = set(value) - set(properties) - {"attributes", "extensions"}
    need(not missing, f"without {sorted(missing)}")
    need(not unknown, f"with {sorted(unknown)}")
    for name, inner in value.items():
        properties.get(name, is_a(dict))(inner)


def environment(value: Any) -> None:
    need(type(value) is dict and all(type(v) in (int, str) for v in value.values()), f"{value!r}")


ROLES = [
    "data-stream-class-id",
    "data-stream-id",
    "default-clock-timestamp",
    "event-record-class-id",
    "discarded-event-record-counter-snapshot",
    "packet-content-length",
    "packet-magic-number",
    "packet-end-default-clock-timestamp",
    "packet-sequence-number",
    "packet-total-length",
]


def roles(value: Any) -> None:
    need(type(value) is list and set(value) <= set(ROLES), f"{value!r}")


def place(value: Any) -> None:
    origins = [
        "packet-header",
        "packet-context",
        "event-record-header",
        "event-record-common-context",
        "event-record-specific-context",
        "event-record-payload",
    ]
    check_object(value, {"path": is_a(list), "origin": is_a(str, *origins)}, "path")
    need(value["path"] and all(x is None or type(x) is str for x in value["path"]), f"{value!r}")


BITS = {
    "length": is_a(int, *range(1, 65)),
    "byte-order": is_a(str, "big-endian", "little-endian"),
    "bit-order": is_a(str, "first-to-last", "last-to-first"),
    "alignment": alignment,
}
BASE = {"preferred-display-base": is_a(int, 2, 8, 10, 16), "mappings": is_a(dict)}


def field_class(value: Any) -> None:
    need(type(value) is dict and "type" in value, f"{value!r} is not a field class")
    kind, rest = value["type"], {k: v for k, v in value.items() if k != "type"}
    if kind.startswith("fixed-length-"):
        own = {**BITS, **({} if "integer" not in kind else BASE)}
        own |= {"roles": roles} if "unsigned" in kind else {}
        check_object(rest, own, "length byte-order")
        need("floating" not in kind or rest["length"] in (32, 64), f"{rest['length']} bits")
    elif kind == "null-terminated-string":
        check_object(rest, {"encoding": text})
    elif kind == "structure":
        check_object(rest, {"member-classes": is_a(list), "minimum-alignment": alignment})
        names = []
        for member in rest.get("member-classes", ()):
            check_object(member, {"name": text, "field-class": field_class}, "name field-class")
            names.append(member["name"])
        need(len(names) == len(set(names)), "two members of one name")
    elif kind == "optional":
        own = {"selector-field-location": place, "field-class": field_class}
        check_object(rest, own | {"selector-field-ranges": is_a(list)}, " ".join(own))
    else:
        raise RefusedError(f"no field class {kind!r} is expected of this writer")


def structure(value: Any) -> None:
    field_class(value)
    need(value["type"] == "structure", "no structure")


NAMED = {"namespace": text, "name": text, "uid": text}
FRAGMENTS: dict[str, tuple[dict[str, Check], str]] = {
    "preamble": ({"version": is_a(int, 2), "uuid": is_a(list)}, "version"),
    "trace-class": (
        NAMED | {"environment": environment, "packet-header-field-class": structure},
        "",
    ),
    "clock-class": (
        NAMED
        | {
            "id": text,
            "frequency": is_a(int),
            "description": text,
            "origin": is_a(str, "unix-epoch"),
            "offset-from-origin": lambda v: check_object(v, {"seconds": number, "cycles": natural}),
            "precision": natural,
            "accuracy": natural,
        },
        "id frequency",
    ),
    "data-stream-class": (
        NAMED
        | {"id": natural, "default-clock-class-id": text}
        | dict.fromkeys(
            (
                "packet-context-field-class",
                "event-record-header-field-class",
                "event-record-common-context-field-class",
            ),
            structure,
        ),
        "",
    ),
    "event-record-class": (
        NAMED
        | {"id": natural, "data-stream-class-id": natural}
        | dict.fromkeys(("specific-context-field-class", "payload-field-class"), structure),
        "",
    ),
}


def check_metadata(fragments: list[dict[str, Any]]) -> None:
    """Raises RefusedError where a reader of the specification would."""
    need(fragments[0].get("type") == "preamble", "no preamble first")
    clocks: dict[str, int] = {}
    streams: set[int] = set()
    events: set[tuple[int, int]] = set()
    for position, fragment in enumerate(fragments):
        kind = fragment.get("type")
        need(kind in FRAGMENTS and (kind != "preamble" or not position), f"fragment {kind!r}")
        check_object({k: v for k, v in fragment.items() if k != "type"}, *FRAGMENTS[kind])
        if kind == "clock-class":
            clocks[fragment["id"]] = fragment["frequency"]
            cycles = fragment.get("offset-from-origin", {}).get("cycles", 0)
            need(0 <= cycles < fragment["frequency"], "cycles of a second or more")
        elif kind == "data-stream-class":
            need(fragment.get("default-clock-class-id", "") in clocks, "no such clock")
            need(fragment.get("id", 0) not in streams, "two data stream classes")
            streams.add(fragment.get("id", 0))
        elif kind == "event-record-class":
            key = fragment.get("data-stream-class-id", 0), fragment.get("id", 0)
            need(key[0] in streams and key not in events, "no such stream, or two of one number")
            events.add(key)
            check_selectors(fragment["payload-field-class"]["member-classes"])


def check_selectors(members: list[dict[str, Any]]) -> None:
    """What an optional field is chosen by stands before it, and is a truth value or a number."""
    before: dict[str, str] = {}
    for member in members:
        kind = member["field-class"]
        if kind["type"] == "optional":
            chosen = before.get(kind["selector-field-location"]["path"][-1], "")
            need("boolean" in chosen or "selector-field-ranges" in kind, "no selector before it")
        before[member["name"]] = kind["type"]


def read_fragments(folder: Path) -> list[dict[str, Any]]:
    data = (folder / "metadata").read_bytes()
    parts = data.split(b"\x1e")  # RFC 7464: each text begins with a record separator
    assert parts[0] == b""
    assert all(part.endswith(b"\n") for part in parts[1:])
    return [json.loads(part) for part in parts[1:]]


@pytest.fixture(scope="module")
def fragments(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("ctf2") / "out"
    paths = ctf2.write(simulated("exposed_communication").run, out)
    return read_fragments(next(path.parent for path in paths if path.name == "metadata"))


def test_what_is_written_is_what_the_specification_demands(fragments: list[dict[str, Any]]) -> None:
    check_metadata(fragments)
    assert {f["type"] for f in fragments} == set(FRAGMENTS)


def list_mistakes(good: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The metadata with one mistake each."""
    for change in (
        lambda f: f.pop(0),
        lambda f: f[0].update(version=1),
        lambda f: f[2].pop("frequency"),
        lambda f: f[2]["offset-from-origin"].update(cycles=10**9),
        lambda f: f[3].update(color="red"),
        lambda f: f[3].update({"default-clock-class-id": "other"}),
        lambda f: f[4].update({"data-stream-class-id": 99}),
        lambda f: f[1]["packet-header-field-class"]["member-classes"][0]["field-class"].pop(
            "byte-order"
        ),
        lambda f: f[4]["payload-field-class"]["member-classes"].append(
            f[4]["payload-field-class"]["member-classes"][0]
        ),
    ):
        broken = copy.deepcopy(good)
        change(broken)  # type: ignore[no-untyped-call]
        yield broken


def test_the_rules_refuse_mistakes(fragments: list[dict[str, Any]]) -> None:
    for broken in list_mistakes(fragments):
        with pytest.raises(RefusedError):
            check_metadata(broken)
