"""The reference's event reader: any JSON that the standard library reads, in pieces of any size."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_reader import events as reader
from reference_reader.events import Events
from sightline.errors import DamagedError
from support.campaigns import examples

# One of each: escapes, every plane of Unicode, nesting, numbers of every form, literals.
EVENTS: list[Any] = [
    {"ph": "X", "name": 'quote " back \\ slash / tab \t new \n', "ts": 1, "dur": 2},
    {"ph": "X", "name": "Ünïcödé 漢字 😀 \u2028", "ts": 3},
    {"ph": "X", "args": {"a": [1, [2, {"b": {}}], []], "c": {"d": None, "e": True, "f": False}}},
    {"ph": "i", "id": 123456789012345678901234567890, "neg": -5, "zero": 0},
    {"name": "process_name", "ph": "M", "pid": "text pid", "args": {"name": "x" * 300}},
    {},
]
HEADER = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "a b": "]}{["}


def read(data: str | bytes) -> tuple[list[Any], Events]:
    """All events, and the reader with its header and quality."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    events = Events(io.BytesIO(raw), "trace.json")  # type: ignore[arg-type]
    return list(events), events


def document(events: list[Any] = EVENTS, *, indent: int | None = None, ascii_: bool = False) -> str:
    tail = {"traceName": "x", "baseTimeNanoseconds": 5}
    return json.dumps({**HEADER, "traceEvents": events, **tail}, indent=indent, ensure_ascii=ascii_)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 17, 64, 1000, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2], ids=["dense", "indented"])
@pytest.mark.parametrize("ascii_", [True, False], ids=["escaped", "utf-8"])
def test_chunks_of_any_size_give_the_same(
    monkeypatch: pytest.MonkeyPatch, size: int, indent: int | None, ascii_: bool
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", size)
    found, events = read(document(indent=indent, ascii_=ascii_))
    assert found == EVENTS
    assert events.header == {**HEADER, "traceName": "x", "baseTimeNanoseconds": 5}
    assert events.quality == []


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.50", "1.50"),
        ("-0.001", "-0.001"),
        ("1e3", "1e3"),
        ("1.7E+15", "1.7E+15"),
        ("12", 12),
        ("-7", -7),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1719853884000001.2345", "1719853884000001.2345"),
        ("null", None),
        ("true", True),
        ('"12.5"', "12.5"),
        ('"\\u00e9\\ud83d\\ude00"', "é😀"),
        ('"\\ud800"', "\ud800"),
        ('"a\tb\x01"', "a\tb\x01"),
    ],
)
def test_values(monkeypatch: pytest.MonkeyPatch, size: int, text: str, value: Any) -> None:
    """Numbers with a point or an exponent stay text: their digits are times."""
    monkeypatch.setattr(reader, "CHUNK_BYTES", size)
    found, events = read('{"traceEvents": [{"v": ' + text + '}], "last": ' + text + "}")
    assert found == [{"v": value}]
    assert events.header == {"last": value}
    assert events.quality == []


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        '[{"ph": "X"}, {"ph": "Y"}]',
        '[{"ph": "X"}, {"ph": "Y"},]',
        '\ufeff[{"ph": "X"},{"ph": "Y"}]',
        '{"traceEvents":[{"ph": "X"},,{"ph": "Y"},]}',
        '\n \t{"traceEvents" : [ {"ph": "X"} , {"ph": "Y"} ] , }\n\n',
        '{"traceEvents":[{"ph": "0", "ph": "X"},{"ph": "Y"}]}',
    ],
    ids=["list", "trailing comma", "bom", "double comma", "blanks", "duplicate key"],
)
def test_forms(monkeypatch: pytest.MonkeyPatch, size: int, text: str) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", size)
    found, events = read(text)
    assert found == [{"ph": "X"}, {"ph": "Y"}]
    assert events.has_events
    assert events.quality == []


def test_open_list_without_its_end_is_what_the_format_allows() -> None:
    """The Trace Event Format lets a list go without ']', for programs that were killed."""
    found, events = read('[{"ph": "X"},\n{"ph": "Y"}\n')
    assert found == [{"ph": "X"}, {"ph": "Y"}]
    assert {q.kind for q in events.quality} <= {"truncated"}


@pytest.mark.parametrize("text", ["", " \n", "hello", "12", '"x"', "<xml/>", "\x00\x01\x02"])
def test_no_json_object_or_list_is_an_error(text: str) -> None:
    with pytest.raises(DamagedError):
        read(text)


@pytest.mark.parametrize("text", ["{", '{"', '{"a', '{"a"', '{"a":', '{"a":1', "{]", '{"a" 1}'])
def test_object_that_breaks_before_anything_is_an_error_or_no_trace(text: str) -> None:
    try:
        found, events = read(text)
    except DamagedError:
        return
    assert found == []
    assert not events.has_events


def test_text_cut_anywhere_gives_the_events_before_the_cut() -> None:
    data = document().encode()
    wholes = [json.dumps(e, ensure_ascii=False).encode() for e in EVENTS]
    ends, at = [], data.index(b'"traceEvents"')
    for whole in wholes:
        at = data.index(whole, at) + len(whole)
        ends.append(at)
    for cut in range(data.index(b'"traceEvents"') + 20, len(data) - 1):
        found, events = read(data[:cut])
        assert found == EVENTS[: sum(end <= cut for end in ends)], cut
        assert [q.kind for q in events.quality] == ["truncated"], cut


def test_cut_before_the_events_is_an_error_or_no_trace() -> None:
    data = document().encode()
    for cut in range(data.index(b'"traceEvents"') + 14):
        try:
            found, events = read(data[:cut])
        except DamagedError:
            continue
        assert found == []
        assert not events.has_events


def test_reading_goes_on_behind_a_damaged_event() -> None:
    good = [{"ph": "X", "name": f"event {i}"} for i in range(5)]
    texts = [json.dumps(e) for e in good]
    texts[2] = '{"ph": "X", "name": "brok'
    found, events = read('{"traceEvents": [' + ", ".join(texts) + "]}")
    assert [e for e in found if e in good] == [good[0], good[1], good[4]] or found == [
        *good[:2],
        *good[3:],
    ]
    assert [q.kind for q in events.quality] == ["damaged_events"]


def test_deep_nesting_is_damage_not_a_crash() -> None:
    deep = "[" * 100_000
    found, events = read('{"traceEvents": [{"ph": "X"}, {"ph": "Z", "args": ' + deep + "}]}")
    assert found[:1] == [{"ph": "X"}]
    assert events.quality


def test_huge_integer_is_damage_not_a_crash() -> None:
    """Python reads integers of up to 4,300 digits from text."""
    found, _ = read('{"traceEvents": [{"ph": "X"}, {"ph": "Y", "ts": ' + "9" * 10_000 + "}]}")
    assert found[0] == {"ph": "X"}


@given(st.data())
@settings(max_examples=examples(150))
def test_flipped_bits_never_escape_as_other_errors(data: st.DataObject) -> None:
    raw = bytearray(document().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found, _ = read(bytes(raw))
    except DamagedError as error:
        assert error.why
    else:
        # A key of another name hides all events; a bit makes at most one of one of them.
        assert len(found) <= len(EVENTS) + 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=4), max_size=6),
    st.integers(1, 40),
    st.booleans(),
)
def test_equals_the_standard_library(events: list[Any], size: int, ascii_: bool) -> None:
    # JSON text cannot hold a lone surrogate other than as an escape.
    text = json.dumps({"traceEvents": events}, ensure_ascii=ascii_)
    want = json.loads(text.encode("utf-8", "replace") if not ascii_ else text)["traceEvents"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "CHUNK_BYTES", size)
        data = text.encode("utf-8", "replace")
        found, read_events = read(data)
    assert found == want
    assert read_events.quality == []


def test_damaged_gzip_gives_the_events_before_the_damage() -> None:
    many = [{"ph": "X", "name": f"event {i * 7919 % 1000}", "ts": i} for i in range(2000)]
    data = gzip.compress(document(many).encode())
    for cut in (len(data) // 3, len(data) // 2, len(data) - 4):
        events = Events(gzip.GzipFile(fileobj=io.BytesIO(data[:cut])), "t")  # type: ignore[arg-type]
        found = list(events)
        assert found == many[: len(found)]
        assert found
        assert events.quality
