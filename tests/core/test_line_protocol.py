"""The line protocol: its grammar, what is not a point, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.line_protocol import (
    find_unit_ns,
    read_events,
    read_fields,
    read_head,
    read_time_ns,
    split_line,
    write_line,
)

NAMES = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=12)


def read(line: bytes):
    head, fields, moment = split_line(line)
    return *read_head(head), dict(read_fields(fields)), read_time_ns(moment, None, 7)


def test_a_line_of_clustercockpits_collector():
    line = b"nv_util,hostname=n1,type=accelerator,type-id=0 value=93.5 1700000000"
    tags = {"hostname": "n1", "type": "accelerator", "type-id": "0"}
    assert read(line) == ("nv_util", tags, {"value": 93.5}, 1_700_000_000 * 10**9)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"m value=1i 1", ("m", {}, {"value": 1.0}, 10**9)),
        (b"m value=-2.5e3", ("m", {}, {"value": -2500.0}, 7)),
        (b'm text="a, b=c \\" d",n=3u 5', ("m", {}, {"n": 3.0}, 5 * 10**9)),
        (b"m a=t,b=F", ("m", {}, {"a": 1.0, "b": 0.0}, 7)),
        (
            b"my\\ metric,tag\\,k=a\\=b\\ c f\\ 1=.5",
            ("my metric", {"tag,k": "a=b c"}, {"f 1": 0.5}, 7),
        ),
        (b"m   value=1   9", ("m", {}, {"value": 1.0}, 9 * 10**9)),
    ],
)
def test_what_the_grammar_has(line, found):
    assert read(line) == found


@pytest.mark.parametrize(
    "line",
    [
        b"m", b"m 1", b"m value", b"m value=", b"m value=nan", b"m value=1e999", b"m value=0x10",
        b"m value=1_0", b"m,a value=1", b"m,=x value=1", b"m,a= value=1", b",a=b value=1",
        b'm text="open', b"m value=1 1.5", b"m value=1 2 3", b"m value=1 99999999999999999999",
        b"m value=1 \xd9\xa1", b"\xff value=1", b"m value=inf", b"x" * 70_000 + b" value=1",
    ],
)  # fmt: skip
def test_what_is_no_point(line):
    with pytest.raises(ValueError, match=r"\w"):
        read(line)


def test_the_unit_of_a_time_follows_from_its_size():
    seconds = 1_700_000_000
    for unit in (1, 10**3, 10**6, 10**9):
        assert find_unit_ns(seconds * 10**9 // unit) == unit


@given(
    NAMES,
    st.dictionaries(NAMES, NAMES, max_size=4),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_what_is_written_reads_back(name, tags, value):
    line = write_line(name, tags, value, 1_700_000_000).encode()
    if name.startswith("#") or '"' in line.decode():
        return
    clean = lambda text: "".join(c for c in text if c.isprintable())  # noqa: E731
    wanted = {clean(k): clean(v) for k, v in tags.items()}
    if any(text.endswith("\\") for text in (name, *tags, *tags.values())):
        return  # the protocol cannot say it
    assert read(line)[:3] == (clean(name), wanted, {"value": value})


@given(st.text(max_size=60), st.text(max_size=20))
def test_events_keep_their_text(text, other):
    def write(one: str) -> str:
        quoted = one.replace("\\", "\\\\").replace('"', '\\"')
        return f'job,function=start_job event="{quoted}" 1700000000'

    data = f"{write(text)}\n\n{write(other)}".encode("utf-8", "surrogatepass")
    assert list(read_events(data)) == [
        ("job", {"function": "start_job"}, one) for one in (text, other)
    ]


@pytest.mark.parametrize(
    "data", [b"job", b"job event=", b'job event="', b'job event="x\\"', b'job,a event="x"', b"\xff"]
)
def test_what_is_no_event_is_an_error(data):
    with pytest.raises(ValueError, match=r"event|tag"):
        list(read_events(data))
